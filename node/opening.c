#include "native/status.h"
#include "node/sentence.h"
#include "node/settings/config.h"
#include <errno.h>
#include <string.h>
#include <sys/prctl.h>

static int refuse(pw_sentence *reason, int code, const char *what)
{
    const int saved = errno;
    pw_sentence_refuse(reason, code, "%s: %s", what, pw_status_text(code));
    if (code == PW_ERR_HOST && saved) pw_sentence_add(reason, ": %s", strerror(saved));
    return code;
}

static int plan_impairments(pw_ni *ni, const pw_node_config *config, pw_sentence *reason)
{
    for (uint32_t site = 0; site < PW_IMPAIRMENT_SITES; site++) {
        const pw_impairment_site *plan = &config->impairments[site];
        if (pw_ni_plan_impairment(ni, site, plan) < 0)
            return pw_sentence_refuse(reason, PW_ERR_INVALID, "impairment %u: %s", site,
                                      pw_impairment_refused(site, plan));
    }
    return PW_OK;
}

/* The emulated machine pages in steps of 4 KB; huge pages would hide faults behind the first. */
static int set_huge_pages(const pw_node_config *config, pw_sentence *reason)
{
    if (config->run.huge_pages != PW_HUGE_PAGES_NEVER || !prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
        return PW_OK;
    return pw_sentence_refuse(reason, PW_ERR_HOST,
                              "run.huge_pages = 'never': the kernel refuses "
                              "prctl(PR_SET_THP_DISABLE); set it to 'host'");
}

int pw_node_open(const pw_node_config *config, const pw_node_opening *opening, pw_wire *wire,
                 pw_node **out, pw_sentence *reason)
{
    const char *why = NULL;
    pw_node_options options;
    pw_node_config_options(config, &options);
    options.clock.replay_ns = opening->replay_ns;
    options.clock.num_replay = opening->num_replay;
    options.strategy = opening->strategy ? opening->strategy : pw_strategy_find(config->run.memory);
    options.strategy_self = opening->strategy_self;
    options.host = opening->host;
    options.pdid = opening->pdid;
    options.num_started = opening->num_started;
    int code = opening->is_process ? set_huge_pages(config, reason) : PW_OK;
    if (code < 0) {
        wire->ops->close(wire);
        return code;
    }
    code = pw_node_create(&options, wire, out, &why);
    if (code < 0) return refuse(reason, code, why);
    code = plan_impairments(pw_node_ni(*out), config, reason);
    if (code == PW_OK) return PW_OK;
    pw_node_destroy(*out);
    *out = NULL;
    return code;
}
