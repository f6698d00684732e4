/* A node's configuration from texts and from a node file, without Python and in a locale with
 * decimal commas too: every row of the table is read, refusals name what is allowed, a file that
 * was cut off or lacks a cost is refused. */
#include "node/settings/config.h"

#include <assert.h>
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "node/settings/platforms.h"
#include "node/settings/setting_rows.h"

static char path[] = "/tmp/pagewire-test-XXXXXX";
static pw_sentence reason;
static pw_node_config config;

/* A whole file of 2 nodes, but for `without`; `more` behind it. */
static void write_file(const char *without, const char *more)
{
    const pw_setting_row *row;
    FILE *file = fopen(path, "w");
    fputs("format=2\nnodes=2\n", file);
    for (uint32_t i = 0; (row = pw_setting_row_at(i)); i++) {
        if (!strcmp(row->name, without)) continue;
        if (row->initial) fprintf(file, "%s=%s\n", row->name, row->initial);
        else if (row->kind == PW_KIND_TABLE)
            fprintf(file, "%s=0:%u 9223372036854775807:%u\n", row->name, i, i);
        else fprintf(file, "%s=%u\n", row->name, i);
    }
    fprintf(file, "%send\n", more);
    fclose(file);
}

static void check_whole_file(void)
{
    pw_node_config defaults;
    pw_node_config_default(&defaults);
    write_file("", "run.compute_scale=2.5\nrun.json=a\\n\\\\b \nimpairments.delay=1:2:3:4\n"
                   "@1 impairments.delay=0:1:2\n@1 impairments.delay_by=4ns\n");
    for (uint32_t node = 0; node < 2; node++) {
        assert(pw_node_config_read(path, node, &config, &reason) == PW_OK);
        assert(!memcmp(&config.settings, &defaults.settings, sizeof config.settings));
        assert(config.costs.core_register_write_ns == config.costs.core_register_read_ns + 1);
        assert(config.run.num_nodes == 2 && config.run.compute_scale == 2.5);
        assert(!strcmp(config.run.json, "a\n\\b ") && !strcmp(config.run.memory, "part"));
        const pw_cost_table *table = &config.tables.table[PW_COST_MUNMAP];
        assert(table->num_points == 2 && table->num_bytes[1] == INT64_MAX);
        assert(config.impairments[PW_IMPAIRMENT_DELAY].num == (node ? 0 : 1));
        assert(config.impairments[PW_IMPAIRMENT_DELAY].seed == (node ? 2 : 3));
        assert(config.impairments[PW_IMPAIRMENT_DELAY].amount_ns == (node ? 4 : 50000));
    }
}

static void check_refusal(uint32_t node, int code, const char *sentence)
{
    assert(pw_node_config_read(path, node, &config, &reason) == code);
    assert(strstr(reason.text, sentence));
}

static void check_refusals(void)
{
    write_file("costs.hop_ns", "");
    check_refusal(0, PW_ERR_INVALID, ": costs.hop_ns is missing; ");
    write_file("tables.copy", "");
    check_refusal(0, PW_ERR_INVALID, ": tables.copy is missing; ");
    write_file("", "costs.hop_ns=1x\n");
    check_refusal(0, PW_ERR_INVALID, ": costs.hop_ns = '1x': allowed is a whole number from 0");
    write_file("", "costs.hop=1\n");
    check_refusal(0, PW_ERR_INVALID, ": unknown setting 'costs.hop'");
    write_file("", "");
    check_refusal(2, PW_ERR_INVALID, ": node 2 in a run of 2 (nodes=)");
    assert(!truncate(path, 5000));
    check_refusal(0, PW_ERR_INVALID, ": it does not end with `end`: it was cut off");
    assert(!unlink(path));
    check_refusal(0, PW_ERR_HOST,
                  ": it cannot be read: No such file or directory; all hosts of a run must see it");
    assert(errno == ENOENT);
}

static void check_texts(void)
{
    const char *const given[] = {"costs.hop_ns=7", "run.platform=exanest-10g",
                                 "tables.copy=4096:1 8192:2", "run.timeout=1.5ms", NULL};
    const char *const of_run[] = {"run.json=x", NULL}, *const together[] = {
                                                           "run.err=no", "run.timeout=none", NULL};
    const pw_platform *platform = pw_platform_find("exanest-10g");
    assert(pw_node_config_of_texts(given, &config, &reason) == PW_OK);
    assert(config.costs.hop_ns == 7 && config.costs.link_mbps == platform->costs.link_mbps);
    assert(config.tables.table[PW_COST_COPY].cost_ns[1] == 2);
    assert(config.settings.timeout_ns == 1500000);
    assert(pw_node_config_of_texts(of_run, &config, &reason) == PW_ERR_INVALID);
    assert(strstr(reason.text, "run.json is a setting of a run"));
    assert(pw_node_config_of_texts(together, &config, &reason) == PW_ERR_INVALID);
    assert(strstr(reason.text, "nothing would send a faulted block again"));
}

int main(void)
{
    int descriptor = mkstemp(path);
    assert(descriptor >= 0);
    close(descriptor);
    check_texts();
    check_whole_file();
    if (setlocale(LC_ALL, "de_DE.UTF-8")) check_whole_file();
    check_refusals();
    return 0;
}
