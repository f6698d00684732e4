/* Settings given as texts: see config.h. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "ni/ni.h"
#include "node/settings/config.h"
#include "node/settings/platforms.h"
#include "node/settings/quantity.h"
#include "node/settings/setting_rows.h"
#include "node/strategies/strategy.h"

#define MILLION 1e6
#define QUOTED_BYTES 200 /* of a value in a sentence */

static void *field_of(pw_node_config *config, const pw_setting_row *row)
{
    return (char *)config + row->offset;
}

static bool is_within(const pw_setting_row *row, double value)
{
    return value * MILLION >= (double)row->min && value * MILLION <= (double)row->max;
}

static bool read_real(const pw_setting_row *row, pw_piece text, void *field)
{
    double number;
    pw_piece rest;
    if (!pw_read_decimal(text, &number, &rest) || rest.length || !is_within(row, number))
        return false;
    if (row->kind == PW_KIND_FACTOR) *(double *)field = number;
    else *(int64_t *)field = (int64_t)rint(number * MILLION);
    return true;
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

/* The number of a name; false: there is no such. */
static bool find_choice(const pw_setting_row *row, pw_piece text, int64_t *number)
{
    if (row->kind == PW_KIND_STRATEGY) {
        const pw_strategy_ops *ops;
        for (uint32_t i = 0; (ops = pw_strategy_at(i)); i++)
            if (pw_piece_is(text, ops->name)) {
                *number = !strcmp(ops->name, "ideal");
                return true;
            }
        return false;
    }
    for (const pw_setting_choice *choice = row->choices; choice->text; choice++)
        if (pw_piece_is(text, choice->text)) {
            *number = choice->number;
            return true;
        }
    return false;
}

static bool read_choice(const pw_setting_row *row, pw_piece text, bool of_run,
                        pw_node_config *config)
{
    int64_t number = row->class_number;
    if (!find_choice(row, text, &number) && !(of_run && row->takes_class)) return false;
    if (row->offset != PW_NO_FIELD) *(int64_t *)field_of(config, row) = number;
    return true;
}

static bool read_platform(pw_piece text, bool of_run, pw_node_config *config)
{
    const pw_platform *platform;
    if (of_run) return true; /* its costs are given one by one */
    for (uint32_t i = 0; (platform = pw_platform_at(i)); i++)
        if (pw_piece_is(text, platform->name)) {
            config->costs = platform->costs;
            config->tables = platform->tables;
            return true;
        }
    return false;
}

static bool read_value(const pw_setting_row *row, pw_piece text, bool of_run,
                       pw_node_config *config)
{
    switch (row->kind) {
    case PW_KIND_TEXT:
    case PW_KIND_PATH: return true;
    case PW_KIND_CHOICE:
    case PW_KIND_STRATEGY: return read_choice(row, text, of_run, config);
    case PW_KIND_PLATFORM: return read_platform(text, of_run, config);
    case PW_KIND_BOOL: return pw_read_bool(text, field_of(config, row));
    case PW_KIND_SITE: return pw_read_site(text, field_of(config, row));
    case PW_KIND_TABLE: return pw_read_table(text, field_of(config, row));
    case PW_KIND_FRACTION:
    case PW_KIND_FACTOR: return read_real(row, text, field_of(config, row));
    default: return read_integer(row, text, field_of(config, row));
    }
}

static void add_names(const pw_setting_row *row, pw_sentence *reason)
{
    const pw_strategy_ops *ops;
    const pw_platform *platform;
    pw_sentence_add(reason, "one of");
    if (row->kind == PW_KIND_STRATEGY)
        for (uint32_t i = 0; (ops = pw_strategy_at(i)); i++)
            pw_sentence_add(reason, "%s %s", i ? "," : "", ops->name);
    else if (row->kind == PW_KIND_PLATFORM)
        for (uint32_t i = 0; (platform = pw_platform_at(i)); i++)
            pw_sentence_add(reason, "%s %s", i ? "," : "", platform->name);
    else
        for (uint32_t i = 0; row->choices[i].text; i++)
            pw_sentence_add(reason, "%s %s", i ? "," : "", row->choices[i].text);
}

static void add_allowed(const pw_setting_row *row, pw_sentence *reason)
{
    const char *none = row->takes_none ? " or none" : "";
    switch (row->kind) {
    case PW_KIND_CHOICE:
    case PW_KIND_STRATEGY:
    case PW_KIND_PLATFORM: add_names(row, reason); return;
    case PW_KIND_BOOL: pw_sentence_add(reason, "true or false"); return;
    case PW_KIND_SITE:
        pw_sentence_add(reason, "num:denom:seed or num:denom:seed:limit, such as 1:100:7, num at "
                                "most denom, denom up to 1000000000");
        return;
    case PW_KIND_TABLE:
        pw_sentence_add(reason,
                        "1 to %d points bytes:ns with a space between, sizes rising and times not "
                        "falling",
                        PW_COST_POINTS_MAX);
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

/* Where the text itself is kept, it must fit. */
static int keep_text(const pw_setting_row *row, pw_piece text, pw_node_config *config,
                     pw_sentence *reason)
{
    if (!row->text_bytes) return PW_OK;
    if (text.length >= row->text_bytes)
        return pw_sentence_refuse(reason, PW_ERR_INVALID,
                                  "%s = '%.*s...': %zu bytes long, allowed are %" PRIu32, row->name,
                                  QUOTED_BYTES, text.start, text.length, row->text_bytes - 1);
    char *kept = (char *)config + row->text_offset;
    memcpy(kept, text.start, text.length);
    kept[text.length] = 0;
    return PW_OK;
}

static int take(const pw_setting_row *row, pw_piece text, bool of_run, pw_node_config *config,
                pw_sentence *reason)
{
    if (read_value(row, text, of_run, config)) return keep_text(row, text, config, reason);
    pw_sentence_clear(reason);
    pw_sentence_add(reason, "%s = '%.*s': allowed is ", row->name,
                    text.length < QUOTED_BYTES ? (int)text.length : QUOTED_BYTES, text.start);
    add_allowed(row, reason);
    return PW_ERR_INVALID;
}

static int split(const char *text, pw_piece *name, pw_piece *value, pw_sentence *reason)
{
    const char *equals = strchr(text, '=');
    if (!equals)
        return pw_sentence_refuse(reason, PW_ERR_INVALID,
                                  "setting '%.*s': expected section.name=value", QUOTED_BYTES,
                                  text);
    *name = pw_piece_strip(text, (size_t)(equals - text));
    *value = (pw_piece){equals + 1, strlen(equals + 1)};
    return PW_OK;
}

int pw_node_config_take(pw_node_config *config, const char *text, bool of_run, pw_sentence *reason)
{
    pw_piece name, value;
    int code = split(text, &name, &value, reason);
    if (code < 0) return code;
    const pw_setting_row *row = find_row(name);
    if (!row) return refuse_name(name, reason);
    if (row->is_of_run && !of_run)
        return pw_sentence_refuse(reason, PW_ERR_INVALID,
                                  "%s is a setting of a run or of a class in Python; a node in C "
                                  "does not take it: leave it out",
                                  row->name);
    /* A text of a run is to the letter what the launcher was told: a path may end with a blank. */
    if (!of_run || !row->text_bytes) value = pw_piece_strip(value.start, value.length);
    return take(row, value, of_run, config, reason);
}

void pw_node_config_default(pw_node_config *out)
{
    const pw_setting_row *row;
    pw_sentence reason;
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; (row = pw_setting_row_at(i)); i++)
        if (row->initial)
            (void)take(row, (pw_piece){row->initial, strlen(row->initial)}, false, out, &reason);
}

static bool is_platform(const char *text)
{
    return pw_piece_is(pw_piece_strip(text, strcspn(text, "=")), "run.platform");
}

int pw_node_config_of_texts(const char *const *texts, pw_node_config *out, pw_sentence *reason)
{
    pw_node_config_default(out);
    for (int pass = 0; pass < 2; pass++)
        for (const char *const *each = texts; each && *each; each++) {
            if (is_platform(*each) != (pass == 0)) continue;
            const int code = pw_node_config_take(out, *each, false, reason);
            if (code < 0) return code;
        }
    const int code = pw_node_settings_check(out, reason);
    if (code < 0) return code;
    pw_settings with_unit = out->settings;
    pw_strategy_choose_unit(pw_strategy_find(out->run.memory), &with_unit);
    pw_sentence_clear(reason);
    return pw_ni_explain_refusal(&out->costs, &with_unit, reason->text, sizeof reason->text)
               ? PW_ERR_INVALID
               : PW_OK;
}
