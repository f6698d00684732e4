#include "transport/node/settings_text.h"
#include "ni/limits.h"
#include "transport/node/clock.h"
#include "transport/node/quantity.h"
#include "transport/node/strategy.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

#define MILLION 1e6

static bool is_within(const pw_setting_row *row, double value, double scale)
{
    return value * scale >= (double)row->min && value * scale <= (double)row->max;
}

static bool read_real(const pw_setting_row *row, pw_piece text, void *field)
{
    double number;
    pw_piece rest;
    if (!pw_read_decimal(text, &number, &rest) || rest.length || !is_within(row, number, MILLION))
        return false;
    if (row->kind == PW_KIND_FACTOR) *(double *)field = number;
    else *(int64_t *)field = (int64_t)rint(number * MILLION);
    return true;
}

static bool read_choice(const pw_setting_row *row, pw_piece text, pw_node_settings *out)
{
    char *base = (char *)out;
    for (uint32_t i = 0; i < row->num_choices; i++) {
        const pw_setting_choice *choice = &row->choices[i];
        if (!pw_piece_is(text, choice->text)) continue;
        if (row->offset != PW_NO_FIELD) *(int64_t *)(void *)(base + row->offset) = choice->number;
        if (row->text_offset != PW_NO_FIELD)
            *(const char **)(void *)(base + row->text_offset) = choice->text;
        return true;
    }
    return false;
}

static bool read_integer(const pw_setting_row *row, pw_piece text, int64_t *out)
{
    int64_t value;
    if (row->takes_none && pw_piece_is_word(text, "none")) {
        *out = row->none;
        return true;
    }
    bool is_read = row->kind == PW_KIND_DURATION ? pw_read_duration(text, &value)
                   : row->kind == PW_KIND_SIZE   ? pw_read_size(text, &value)
                                                 : pw_read_whole(text, &value);
    if (!is_read || value < row->min || value > row->max) return false;
    if (row->power_of_two && (value & (value - 1))) return false;
    *out = value;
    return true;
}

static bool read_value(const pw_setting_row *row, pw_piece text, pw_node_settings *out)
{
    if (row->kind == PW_KIND_CHOICE) return read_choice(row, text, out);
    if (row->offset == PW_NO_FIELD) return false;
    void *field = (char *)out + row->offset;
    switch (row->kind) {
    case PW_KIND_BOOL: return pw_read_bool(text, field);
    case PW_KIND_SITE: return pw_read_site(text, field);
    case PW_KIND_FRACTION:
    case PW_KIND_FACTOR: return read_real(row, text, field);
    default: return read_integer(row, text, field);
    }
}

static void add_allowed(const pw_setting_row *row, pw_sentence *reason)
{
    const char *none = row->takes_none ? " or none" : "";
    switch (row->kind) {
    case PW_KIND_CHOICE:
        for (uint32_t i = 0; i < row->num_choices; i++)
            pw_sentence_add(reason, "%s%s", i ? ", " : "one of ", row->choices[i].text);
        return;
    case PW_KIND_BOOL: pw_sentence_add(reason, "true or false"); return;
    case PW_KIND_SITE:
        pw_sentence_add(reason, "num:denom:seed or num:denom:seed:limit, such as 1:100:7, num at "
                                "most denom, denom up to 1000000000");
        return;
    case PW_KIND_FRACTION:
    case PW_KIND_FACTOR:
        pw_sentence_add(reason, "a number from %g to %g", (double)row->min / MILLION,
                        (double)row->max / MILLION);
        return;
    case PW_KIND_DURATION:
        pw_sentence_add(
            reason, "a duration with unit (ns, us, ms, s) from %" PRId64 "ns to %" PRId64 "ns%s",
            row->min, row->max, none);
        return;
    case PW_KIND_SIZE:
        pw_sentence_add(reason,
                        "a size in bytes or with unit (B, KiB, MiB, GiB, kB, MB, GB) from %" PRId64
                        " to %" PRId64 "%s",
                        row->min, row->max, none);
        return;
    default:
        pw_sentence_add(reason, "%s from %" PRId64 " to %" PRId64 "%s",
                        row->power_of_two ? "a power of two" : "a whole number", row->min, row->max,
                        none);
    }
}

static const pw_setting_row *find_row(pw_piece name)
{
    const pw_setting_row *row;
    for (uint32_t i = 0; (row = pw_setting_row_at(i)); i++)
        if (pw_piece_is(name, row->name)) return row;
    return NULL;
}

static int refuse_name(pw_piece name, pw_sentence *reason)
{
    const char *point = memchr(name.start, '.', name.length);
    size_t section_bytes = point ? (size_t)(point - name.start) + 1 : 0;
    pw_sentence_clear(reason);
    pw_sentence_add(reason, "unknown setting '%.*s'; there are", (int)name.length, name.start);
    const pw_setting_row *row;
    bool found = false;
    for (uint32_t i = 0; (row = pw_setting_row_at(i)); i++) {
        if (!section_bytes || strncmp(row->name, name.start, section_bytes) != 0) continue;
        pw_sentence_add(reason, "%s %s", found ? "," : "", row->name);
        found = true;
    }
    if (!found) pw_sentence_add(reason, " those of docs/settings.md, and costs.FIELD");
    return PW_ERR_INVALID;
}

/* only_platform: take it, and nothing else; otherwise the other way round. */
static int assign(pw_node_settings *out, const char *assignment, bool only_platform,
                  pw_sentence *reason)
{
    const char *equals = strchr(assignment, '=');
    if (!equals)
        return pw_sentence_refuse(reason, PW_ERR_INVALID,
                                  "setting '%s': expected section.name=value", assignment);
    pw_piece name = pw_piece_strip(assignment, (size_t)(equals - assignment));
    pw_piece value = pw_piece_strip(equals + 1, strlen(equals + 1));
    if (pw_piece_is(name, "run.platform") != only_platform) return PW_OK;
    const pw_setting_row *row = find_row(name);
    if (!row) return refuse_name(name, reason);
    if (row->kind == PW_KIND_FOREIGN)
        return pw_sentence_refuse(reason, PW_ERR_INVALID,
                                  "%s is a setting of a run or of a class in Python; a node in C "
                                  "does not take it: leave it out",
                                  row->name);
    if (read_value(row, value, out)) return PW_OK;
    pw_sentence_clear(reason);
    pw_sentence_add(reason, "%s = '%.*s': allowed is ", row->name, (int)value.length, value.start);
    add_allowed(row, reason);
    return PW_ERR_INVALID;
}

int pw_node_settings_read(pw_node_settings *out, const char *const *assignments,
                          pw_sentence *reason)
{
    *out = pw_node_settings_default;
    for (int pass = 0; pass < 2; pass++) {
        for (const char *const *each = assignments; each && *each; each++) {
            int code = assign(out, *each, pass == 0, reason);
            if (code < 0) return code;
        }
        if (pass == 0) out->costs = pw_platform_find(out->platform)->costs;
    }
    return pw_node_settings_check(out, reason);
}

static const char *first_site_on(const pw_node_settings *settings, const int *sites)
{
    static const char *const names[PW_IMPAIRMENT_SITES] = {
        [PW_IMPAIRMENT_PACKET_LOSS] = "packet_loss",
        [PW_IMPAIRMENT_LOST_ACK] = "lost_ack",
        [PW_IMPAIRMENT_LOST_NACK] = "lost_nack",
        [PW_IMPAIRMENT_LOST_ERR] = "lost_err",
        [PW_IMPAIRMENT_FIFO_FULL] = "fifo_full",
        [PW_IMPAIRMENT_PACKET_CORRUPTION] = "packet_corruption"};
    for (; *sites >= 0; sites++)
        if (settings->sites[*sites].num) return names[*sites];
    return NULL;
}

static int check_impairments(const pw_node_settings *settings, pw_sentence *reason)
{
    static const int waited_for[] = {PW_IMPAIRMENT_PACKET_LOSS, PW_IMPAIRMENT_LOST_ACK,
                                     PW_IMPAIRMENT_LOST_NACK,   PW_IMPAIRMENT_LOST_ERR,
                                     PW_IMPAIRMENT_FIFO_FULL,   -1};
    static const int of_errs[] = {PW_IMPAIRMENT_LOST_ERR, PW_IMPAIRMENT_FIFO_FULL, -1};
    static const int fatal[][2] = {{PW_IMPAIRMENT_PACKET_LOSS, -1},
                                   {PW_IMPAIRMENT_PACKET_CORRUPTION, -1},
                                   {PW_IMPAIRMENT_LOST_ACK, -1}};
    for (int i = 0; i < 3; i++) {
        const pw_impairment_site *site = &settings->sites[fatal[i][0]];
        if (site->num && site->num == site->denom && !site->limit)
            return pw_sentence_refuse(reason, PW_ERR_INVALID,
                                      "impairments.%s: every event fails, so no block would ever "
                                      "get through; take num below denom, or give a limit",
                                      first_site_on(settings, fatal[i]));
    }
    const char *name = first_site_on(settings, waited_for);
    static const int damage[] = {PW_IMPAIRMENT_PACKET_CORRUPTION, -1};
    int64_t unit = settings->settings.translation; /* which says nothing of a damaged block: */
    if (!name && (unit == PW_TRANSLATION_MINI || unit == PW_TRANSLATION_STATIC))
        name = first_site_on(settings, damage);
    if (name && settings->settings.timeout_ns < 0)
        return pw_sentence_refuse(reason, PW_ERR_INVALID,
                                  "impairments.%s with run.timeout = none: only a timeout sends "
                                  "such a block again; set run.timeout",
                                  name);
    name = first_site_on(settings, of_errs);
    if (name && settings->settings.nack_cancels_timer)
        return pw_sentence_refuse(reason, PW_ERR_INVALID,
                                  "impairments.%s with run.nack_cancels_timer = true: the NACK "
                                  "stops the timer, and no ERR comes; leave the timer on",
                                  name);
    return PW_OK;
}

int pw_node_settings_check(const pw_node_settings *settings, pw_sentence *reason)
{
    const pw_settings *s = &settings->settings;
    const char *because = NULL;
    if (settings->compute == PW_COMPUTE_REPLAY)
        because = "run.compute = 'replay' has nothing to replay: recordings are files of a run; "
                  "take measured, model or none";
    else if (s->nack_cancels_timer && !s->err_enabled)
        because = "run.nack_cancels_timer = true with run.err = false: a NACK would stop the timer "
                  "and nothing would send the block again; allow ERRs";
    else if (!s->err_enabled && s->timeout_ns < 0 && !s->stall &&
             strcmp(settings->memory, "part") == 0)
        because = "run.err = false and run.timeout = none with run.memory = 'part': nothing would "
                  "send a faulted block again; allow ERRs, set a timeout, take smmu.mode = 'stall' "
                  "or another memory strategy";
    else if (s->translation != PW_TRANSLATION_SMMU && strcmp(settings->memory, "part") != 0)
        because = "run.translation = 'mini' or 'static' with another run.memory than 'part': the "
                  "unit itself keeps pages pinned; take run.memory = 'part'";
    else if (s->medium_limit_bytes < s->high_limit_bytes)
        because = "firmware.medium_limit is below firmware.high_limit: classes go from small to "
                  "large; raise it";
    if (because) return pw_sentence_refuse(reason, PW_ERR_INVALID, "%s", because);
    pw_sentence_clear(reason);
    pw_settings with_unit = *s;
    const pw_strategy_ops *strategy = pw_strategy_find(settings->memory);
    if (strategy) pw_strategy_choose_unit(strategy, &with_unit);
    if (pw_ni_explain_refusal(&settings->costs, &with_unit, reason->text, sizeof reason->text))
        return PW_ERR_INVALID;
    return check_impairments(settings, reason);
}
