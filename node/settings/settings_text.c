/* Settings given as texts: see config.h. Numbers, durations, sizes, truths, sites of impairments
 * and cost tables are read as native/settings.py does, whatever the locale; each reader tells
 * whether the whole piece is one, and writes *out only then. */
#include <ctype.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "ni/ni.h"
#include "node/settings/config.h"
#include "node/settings/platforms.h"
#include "node/settings/setting_rows.h"
#include "node/strategies/strategy.h"

#define MILLION 1e6
#define QUOTED_BYTES 200 /* of a value in a sentence */

typedef struct {
    const char *start;
    size_t length;
} piece;

#define TOLERANCE 1e-6 /* 1.1us is 1100.0000000000002 ns in binary */
#define DIGITS_MAX 400 /* of a number that is written out */

typedef struct {
    const char *name;
    double factor; /* to the base unit */
} unit;

static const unit durations[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {NULL, 0}};
#define KIB 1024
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
static const unit sizes[] = {{"B", 1},     {"KiB", KIB}, {"K", KIB},   {"k", KIB},
                             {"MiB", MIB}, {"M", MIB},   {"GiB", GIB}, {"G", GIB},
                             {"kB", 1e3},  {"MB", 1e6},  {"GB", 1e9},  {NULL, 0}};

static piece strip(const char *start, size_t length)
{
    while (length && isspace((unsigned char)start[0])) start++, length--;
    while (length && isspace((unsigned char)start[length - 1])) length--;
    return (piece){start, length};
}

static bool is_word(piece text, const char *word)
{
    return text.length == strlen(word) && strncasecmp(text.start, word, text.length) == 0;
}

static bool is_text(piece text, const char *word)
{
    return text.length == strlen(word) && memcmp(text.start, word, text.length) == 0;
}

/* Digits from *at on as a number, which goes on behind them; false: there are none, or too many. */
static bool take_whole(piece text, size_t *at, int64_t *number)
{
    const size_t start = *at;
    *number = 0;
    for (; *at < text.length && isdigit((unsigned char)text.start[*at]); ++*at)
        if (__builtin_mul_overflow(*number, 10, number) ||
            __builtin_add_overflow(*number, text.start[*at] - '0', number))
            return false;
    return *at > start;
}

static size_t skip_digits(piece text, size_t at)
{
    while (at < text.length && isdigit((unsigned char)text.start[at])) at++;
    return at;
}

static bool read_whole(piece text, int64_t *out)
{
    const bool is_negative = text.length && text.start[0] == '-';
    size_t at = text.length && (is_negative || text.start[0] == '+');
    int64_t number;
    if (!take_whole(text, &at, &number) || at < text.length) return false;
    *out = is_negative ? -number : number;
    return true;
}

/* Length of a number with point and exponent at the start of text, whatever stands behind; 0: none.
 */
static size_t decimal_length(piece text)
{
    const size_t sign = text.length && (text.start[0] == '-' || text.start[0] == '+');
    size_t at = skip_digits(text, sign);
    if (at == sign) return 0;
    if (at < text.length && text.start[at] == '.' && skip_digits(text, at + 1) > at + 1)
        at = skip_digits(text, at + 1);
    if (at < text.length && (text.start[at] | 32) == 'e') {
        const bool is_signed =
            at + 1 < text.length && (text.start[at + 1] == '-' || text.start[at + 1] == '+');
        const size_t digits = at + 1 + is_signed;
        if (skip_digits(text, digits) > digits) at = skip_digits(text, digits);
    }
    return at;
}

static bool read_decimal(piece text, double *out, piece *rest)
{
    char digits[DIGITS_MAX];
    const size_t length = decimal_length(text);
    const locale_t c_locale = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (!c_locale || !length || length >= sizeof digits) return false;
    memcpy(digits, text.start, length);
    digits[length] = 0;
    const double number = strtod_l(digits, NULL, c_locale); /* a program's locale may write 1,5 */
    freelocale(c_locale);
    if (!isfinite(number)) return false;
    *out = number;
    *rest = strip(text.start + length, text.length - length);
    return true;
}

/* With unit (1.5ms); a size may have none. */
static bool read_quantity(piece text, const unit *units, bool needs_unit, int64_t *out)
{
    double number;
    piece name;
    if (!read_decimal(text, &number, &name) || (needs_unit && !name.length)) return false;
    const unit *each = units;
    while (name.length && each->name && !is_text(name, each->name)) each++;
    if (!each->name) return false;
    double value = number * each->factor, whole = round(value);
    if (!(fabs(value) < 9e18) || fabs(value - whole) > TOLERANCE) return false;
    *out = (int64_t)whole;
    return true;
}

static bool read_bool(piece text, int64_t *out)
{
    static const char *const words[2][4] = {{"false", "off", "no", "0"},
                                            {"true", "on", "yes", "1"}};
    for (int64_t truth = 0; truth < 2; truth++)
        for (int i = 0; i < 4; i++)
            if (is_word(text, words[truth][i])) {
                *out = truth;
                return true;
            }
    return false;
}

/* num:denom:seed[:limit]; without a limit there is none. */
static bool read_site(piece text, pw_impairment_site *site)
{
    int64_t numbers[4] = {0};
    int count = 0;
    for (size_t at = 0;; at++) {
        if (count == 4 || !take_whole(text, &at, &numbers[count])) return false;
        count++;
        if (at == text.length) break;
        if (text.start[at] != ':') return false;
    }
    if (count < 3) return false;
    site->num = (uint64_t)numbers[0], site->denom = (uint64_t)numbers[1];
    site->seed = (uint64_t)numbers[2], site->limit = (uint64_t)numbers[3];
    return pw_impairment_refused(0, site) == NULL;
}

/* bytes:ns bytes:ns ...; sizes rise and times do not fall. */
static bool read_table(piece text, pw_cost_table *out)
{
    pw_cost_table table = {0};
    for (size_t at = 0; table.num_points < PW_COST_POINTS_MAX; at++) {
        const uint32_t idx = table.num_points++;
        if (!take_whole(text, &at, &table.num_bytes[idx]) || at == text.length ||
            text.start[at++] != ':' || !take_whole(text, &at, &table.cost_ns[idx]))
            return false;
        if (at == text.length) {
            *out = table;
            return !pw_cost_table_refused(&table);
        }
        if (text.start[at] != ' ') return false;
    }
    return false;
}

/* --- settings ------------------------------------------------------------------------------------
 */

static void *field_of(pw_node_config *config, const pw_setting_row *row)
{
    return (char *)config + row->offset;
}

static bool is_within(const pw_setting_row *row, double value)
{
    return value * MILLION >= (double)row->min && value * MILLION <= (double)row->max;
}

static bool read_real(const pw_setting_row *row, piece text, void *field)
{
    double number;
    piece rest;
    if (!read_decimal(text, &number, &rest) || rest.length || !is_within(row, number)) return false;
    if (row->kind == PW_KIND_FACTOR) *(double *)field = number;
    else *(int64_t *)field = (int64_t)rint(number * MILLION);
    return true;
}

static bool read_integer(const pw_setting_row *row, piece text, int64_t *out)
{
    int64_t value;
    if (row->takes_none && is_word(text, "none")) {
        *out = row->none;
        return true;
    }
    bool is_read = row->kind == PW_KIND_DURATION ? read_quantity(text, durations, true, &value)
                   : row->kind == PW_KIND_SIZE   ? read_quantity(text, sizes, false, &value)
                                                 : read_whole(text, &value);
    if (!is_read || value < row->min || value > row->max) return false;
    if (row->power_of_two && (value & (value - 1))) return false;
    *out = value;
    return true;
}

/* The idx-th name that a setting takes; NULL behind the last. */
static const char *name_at(const pw_setting_row *row, uint32_t idx)
{
    if (row->kind == PW_KIND_STRATEGY) {
        const pw_strategy_ops *ops = pw_strategy_at(idx);
        return ops ? ops->name : NULL;
    }
    if (row->kind == PW_KIND_PLATFORM) {
        const pw_platform *platform = pw_platform_at(idx);
        return platform ? platform->name : NULL;
    }
    return row->choices[idx].text;
}

static bool find_name(const pw_setting_row *row, piece text, uint32_t *idx)
{
    const char *name;
    for (*idx = 0; (name = name_at(row, *idx)); ++*idx)
        if (is_text(text, name)) return true;
    return false;
}

static bool read_choice(const pw_setting_row *row, piece text, bool of_run, pw_node_config *config)
{
    int64_t number = row->class_number;
    uint32_t idx;
    const bool is_found = find_name(row, text, &idx);
    if (!is_found && !(of_run && row->takes_class)) return false;
    if (row->kind == PW_KIND_STRATEGY) number = is_text(text, "ideal");
    else if (is_found) number = row->choices[idx].number;
    if (row->offset != PW_NO_FIELD) *(int64_t *)field_of(config, row) = number;
    return true;
}

static bool read_platform(const pw_setting_row *row, piece text, bool of_run,
                          pw_node_config *config)
{
    uint32_t idx;
    if (of_run) return true; /* its costs are given one by one */
    if (!find_name(row, text, &idx)) return false;
    config->costs = pw_platform_at(idx)->costs;
    config->tables = pw_platform_at(idx)->tables;
    return true;
}

static bool read_value(const pw_setting_row *row, piece text, bool of_run, pw_node_config *config)
{
    switch (row->kind) {
    case PW_KIND_TEXT:
    case PW_KIND_PATH: return true;
    case PW_KIND_CHOICE:
    case PW_KIND_STRATEGY: return read_choice(row, text, of_run, config);
    case PW_KIND_PLATFORM: return read_platform(row, text, of_run, config);
    case PW_KIND_BOOL: return read_bool(text, field_of(config, row));
    case PW_KIND_SITE: return read_site(text, field_of(config, row));
    case PW_KIND_TABLE: return read_table(text, field_of(config, row));
    case PW_KIND_FRACTION:
    case PW_KIND_FACTOR: return read_real(row, text, field_of(config, row));
    default: return read_integer(row, text, field_of(config, row));
    }
}

static void add_names(const pw_setting_row *row, pw_sentence *reason)
{
    const char *name;
    pw_sentence_add(reason, "one of");
    for (uint32_t i = 0; (name = name_at(row, i)); i++)
        pw_sentence_add(reason, "%s %s", i ? "," : "", name);
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
        pw_sentence_add(
            reason,
            "a size in bytes or with unit (B, KiB, K, k, MiB, M, GiB, G, kB, MB, GB) from %" PRId64
            " to %" PRId64 "%s",
            row->min, row->max, none);
        return;
    default:
        pw_sentence_add(reason, "%s from %" PRId64 " to %" PRId64 "%s",
                        row->power_of_two ? "a power of two" : "a whole number", row->min, row->max,
                        none);
    }
}

static int refuse_name(piece name, pw_sentence *reason)
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
static int keep_text(const pw_setting_row *row, piece text, pw_node_config *config,
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

static int take(const pw_setting_row *row, piece text, bool of_run, pw_node_config *config,
                pw_sentence *reason)
{
    if (read_value(row, text, of_run, config)) return keep_text(row, text, config, reason);
    pw_sentence_clear(reason);
    pw_sentence_add(reason, "%s = '%.*s': allowed is ", row->name,
                    text.length < QUOTED_BYTES ? (int)text.length : QUOTED_BYTES, text.start);
    add_allowed(row, reason);
    return PW_ERR_INVALID;
}

int pw_node_config_take(pw_node_config *config, const char *text, bool of_run, pw_sentence *reason)
{
    const char *equals = strchr(text, '=');
    if (!equals)
        return pw_sentence_refuse(reason, PW_ERR_INVALID,
                                  "setting '%.*s': expected section.name=value", QUOTED_BYTES,
                                  text);
    const piece name = strip(text, (size_t)(equals - text));
    piece value = {equals + 1, strlen(equals + 1)};
    const pw_setting_row *row = pw_setting_row_find(name.start, name.length);
    if (!row) return refuse_name(name, reason);
    if (row->is_of_run && !of_run)
        return pw_sentence_refuse(reason, PW_ERR_INVALID,
                                  "%s is a setting of a run or of a class in Python; a node in C "
                                  "does not take it: leave it out",
                                  row->name);
    /* A text of a run is to the letter what the launcher was told: a path may end with a blank. */
    if (!of_run || !row->text_bytes) value = strip(value.start, value.length);
    return take(row, value, of_run, config, reason);
}

void pw_node_config_default(pw_node_config *out)
{
    const pw_setting_row *row;
    pw_sentence reason;
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; (row = pw_setting_row_at(i)); i++)
        if (row->initial)
            (void)take(row, (piece){row->initial, strlen(row->initial)}, false, out, &reason);
}

static bool is_platform(const char *text)
{
    return is_text(strip(text, strcspn(text, "=")), "run.platform");
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
