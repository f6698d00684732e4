/* A node's configuration from a node file, without Python and in a locale with decimal commas too:
 * every row of the table is read. What is refused: tests/run/test_node_file.py. */
#include "node/settings/config.h"

#include <assert.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "node/settings/setting_rows.h"

static char path[] = "/tmp/pagewire-test-XXXXXX";
static pw_sentence reason;
static pw_node_config config;

/* A whole file of 2 nodes; `more` behind it. */
static void write_file(const char *more)
{
    const pw_setting_row *row;
    FILE *file = fopen(path, "w");
    fputs("format=2\nnodes=2\n", file);
    for (uint32_t i = 0; (row = pw_setting_row_at(i)); i++) {
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
    write_file("run.compute_scale=2.5\nrun.json=a\\n\\\\b \nimpairments.delay=1:2:3:4\n"
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

int main(void)
{
    int descriptor = mkstemp(path);
    assert(descriptor >= 0);
    close(descriptor);
    check_whole_file();
    if (setlocale(LC_ALL, "de_DE.UTF-8")) check_whole_file();
    assert(!unlink(path));
    return 0;
}
