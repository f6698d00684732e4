/* The node file without Python: one that C writes itself by the tables of fields, in a locale with
 * decimal commas too; values at the ends of their types; refusals leave nothing behind. */
#include "transport/node/config_file.h"

#include <assert.h>
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transport/node/config_values.h"
#include "transport/node/fields.h"

static char path[] = "/tmp/pagewire-test-XXXXXX";
static char reason[PW_CONFIG_REASON_BYTES];
static pw_node_config config;

static const char *value_of(const pw_field_table *table, const pw_field *field)
{
    static char text[32];
    if (table == &pw_fields_run && !strcmp(field->name, "num_nodes")) return "2";
    if (field->kind == PW_FIELD_DOUBLE) return "2.5";
    if (field->kind == PW_FIELD_TEXT) return field->name;
    if (field->kind == PW_FIELD_FLAG || table == &pw_fields_run) return "1";
    snprintf(text, sizeof text, "%u", field->offset);
    return text;
}

/* A whole file, but for `without`; `more` behind it. */
static void write_file(const char *without, const char *more)
{
    FILE *file = fopen(path, "w");
    const pw_field_table *const tables[] = {&pw_fields_costs, &pw_fields_settings, &pw_fields_run};
    fputs("format = 1\n", file);
    for (size_t i = 0; i < 3; i++)
        for (uint32_t j = 0; j < tables[i]->num_fields; j++) {
            const pw_field *field = &tables[i]->fields[j];
            if (strcmp(field->name, without))
                fprintf(file, "%s.%s = %s\n", tables[i]->section, field->name,
                        value_of(tables[i], field));
        }
    for (int i = 0; i < PW_COST_TABLES; i++)
        fprintf(file, "tables.%s = 0:%d 9223372036854775807:%d\n", pw_cost_table_names[i], i, i);
    for (int i = 0; i < PW_IMPAIRMENT_SITES; i++)
        fprintf(file, "impairments.%s = 1 2 18446744073709551615 %d 5\n", pw_impairment_names[i],
                i);
    fputs(more, file);
    fclose(file);
}

static void check_whole_file(void)
{
    write_file("", "impairments.delay.1 = 0 1 2 3 4\nchanged.run.json = a\\n\\\\b\n");
    for (uint32_t node = 0; node < 2; node++) {
        assert(pw_node_config_read(path, node, &config, reason) == PW_OK);
        assert(config.costs.hop_ns == offsetof(pw_costs, hop_ns));
        assert(config.settings.lookahead_blocks == offsetof(pw_settings, lookahead_blocks));
        assert(config.run.compute_scale == 2.5 && config.run.quiet && config.run.strict);
        assert(!strcmp(config.run.json, "json") && !strcmp(config.run.memory, "memory"));
        const pw_cost_table *table = &config.tables.table[PW_COST_MUNMAP];
        assert(table->num_points == 2 && table->num_bytes[1] == INT64_MAX);
        assert(table->cost_ns[1] == PW_COST_MUNMAP);
        assert(config.impairments[PW_IMPAIRMENT_FIFO_FULL].seed == UINT64_MAX);
        assert(config.impairments[PW_IMPAIRMENT_DELAY].num == (node ? 0 : 1));
        assert(config.impairments[PW_IMPAIRMENT_DELAY].amount_ns == (node ? 4 : 5));
        assert(config.num_changed == 1 && !strcmp(config.changed[0].name, "run.json"));
        assert(!strcmp(config.changed[0].text, "a\n\\b"));
        pw_node_config_free(&config);
        assert(!config.text);
    }
}

static void check_refusal(uint32_t node, int code, const char *sentence)
{
    assert(pw_node_config_read(path, node, &config, reason) == code);
    assert(strstr(reason, sentence) && !config.text && !config.num_changed);
}

static void check_refusals(void)
{
    write_file("hop_ns", "");
    check_refusal(0, PW_ERR_INVALID, ": costs.hop_ns is missing (1 of ");
    write_file("", "costs.hop_ns = 1\n");
    check_refusal(0, PW_ERR_INVALID, ": costs.hop_ns is there twice, first in line ");
    write_file("hop_ns", "costs.hop_ns = 1 \n");
    check_refusal(0, PW_ERR_INVALID, ": costs.hop_ns = '1 ': allowed is a whole number from ");
    write_file("", "costs.hop = 1\n");
    check_refusal(0, PW_ERR_INVALID, ": unknown key 'costs.hop'; ");
    write_file("", "");
    check_refusal(2, PW_ERR_INVALID, ": node 2 in a run of 2 (run.num_nodes)");
    assert(!unlink(path));
    check_refusal(0, PW_ERR_HOST,
                  ": it cannot be read: No such file or directory; all hosts of a run must see it");
    assert(errno == ENOENT);
}

static void check_numbers(void)
{
    const pw_field field = {"x", 0, 1, PW_FIELD_INT64};
    char allowed[PW_VALUE_ALLOWED_BYTES];
    int64_t number = 5;
    const int64_t low = INT64_MIN, high = INT64_MAX;
    assert(!pw_value_read_field("-9223372036854775808", &field, &number, low, high, allowed));
    assert(number == INT64_MIN);
    assert(pw_value_read_field("9223372036854775808", &field, &number, low, high, allowed) ==
           PW_ERR_INVALID);
    assert(pw_value_read_field("-", &field, &number, low, high, allowed) == PW_ERR_INVALID);
    assert(number == INT64_MIN); /* untouched */
    assert(!pw_value_read_field("9223372036854775807", &field, &number, low, high, allowed));
    assert(number == INT64_MAX);
    assert(pw_value_read_field("8", &field, &number, 0, 7, allowed) == PW_ERR_INVALID);
    assert(!strcmp(allowed, "a whole number from 0 to 7"));
    const pw_field unsigned_field = {"x", 0, 1, PW_FIELD_UINT64};
    assert(pw_value_read_field("1", &unsigned_field, &number, 0, 7, allowed) == PW_ERR_INVALID);
}

int main(void)
{
    int descriptor = mkstemp(path);
    assert(descriptor >= 0);
    close(descriptor);
    check_whole_file();
    if (setlocale(LC_ALL, "de_DE.UTF-8")) check_whole_file();
    check_refusals();
    check_numbers();
    return 0;
}
