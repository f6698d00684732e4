#include "node/settings/quantity.h"
#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define TOLERANCE 1e-6 /* 1.1us is 1100.0000000000002 ns in binary */
#define DIGITS_MAX 400 /* of a number that is written out */

typedef struct {
    const char *name;
    double factor; /* to the base unit */
} unit;

static const unit durations[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {NULL, 0}};
static const unit sizes[] = {{"B", 1},    {"KiB", 1024}, {"MiB", 1048576}, {"GiB", 1073741824},
                             {"kB", 1e3}, {"MB", 1e6},   {"GB", 1e9},      {NULL, 0}};

pw_piece pw_piece_strip(const char *start, size_t length)
{
    while (length && isspace((unsigned char)start[0])) start++, length--;
    while (length && isspace((unsigned char)start[length - 1])) length--;
    return (pw_piece){start, length};
}

bool pw_piece_is_word(pw_piece text, const char *word)
{
    return text.length == strlen(word) && strncasecmp(text.start, word, text.length) == 0;
}

bool pw_piece_is(pw_piece text, const char *word)
{
    return text.length == strlen(word) && memcmp(text.start, word, text.length) == 0;
}

/* Digits from *at on as a number, as far as they go; false when they are more than 64 bits. */
static bool take_digits(pw_piece text, size_t *at, uint64_t *number)
{
    for (; *at < text.length && isdigit((unsigned char)text.start[*at]); ++*at)
        if (__builtin_mul_overflow(*number, 10, number) ||
            __builtin_add_overflow(*number, (uint64_t)(text.start[*at] - '0'), number))
            return false;
    return true;
}

static size_t skip_digits(pw_piece text, size_t at)
{
    while (at < text.length && isdigit((unsigned char)text.start[at])) at++;
    return at;
}

bool pw_read_whole(pw_piece text, int64_t *out)
{
    size_t at = 0;
    bool is_negative = text.length && text.start[0] == '-';
    if (text.length && (is_negative || text.start[0] == '+')) at++;
    uint64_t number = 0;
    if (at == text.length || !take_digits(text, &at, &number) || at < text.length ||
        number > INT64_MAX)
        return false;
    *out = is_negative ? -(int64_t)number : (int64_t)number;
    return true;
}

/* Length of a number with point and exponent at the start of text, whatever stands behind; 0: none.
 */
static size_t decimal_length(pw_piece text)
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

bool pw_read_decimal(pw_piece text, double *out, pw_piece *rest)
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
    *rest = pw_piece_strip(text.start + length, text.length - length);
    return true;
}

/* With unit; a size may have none. */
static bool read_quantity(pw_piece text, const unit *units, bool needs_unit, int64_t *out)
{
    double number;
    pw_piece name;
    if (!pw_read_decimal(text, &number, &name) || (needs_unit && !name.length)) return false;
    const unit *each = units;
    while (name.length && each->name && !pw_piece_is(name, each->name)) each++;
    if (!each->name) return false;
    double value = number * each->factor, whole = round(value);
    if (!(fabs(value) < 9e18) || fabs(value - whole) > TOLERANCE) return false;
    *out = (int64_t)whole;
    return true;
}

bool pw_read_bool(pw_piece text, int64_t *out)
{
    static const char *const words[2][4] = {{"false", "off", "no", "0"},
                                            {"true", "on", "yes", "1"}};
    for (int64_t truth = 0; truth < 2; truth++)
        for (int i = 0; i < 4; i++)
            if (pw_piece_is_word(text, words[truth][i])) {
                *out = truth;
                return true;
            }
    return false;
}

/* num:denom:seed[:limit]; without a limit there is none. */
bool pw_read_site(pw_piece text, pw_impairment_site *site)
{
    uint64_t numbers[4] = {0};
    int count = 0;
    size_t at = 0;
    for (;; at++) {
        size_t start = at;
        if (count == 4 || !take_digits(text, &at, &numbers[count]) || at == start) return false;
        count++;
        if (at == text.length) break;
        if (text.start[at] != ':') return false;
    }
    if (count < 3 || numbers[2] > INT64_MAX || numbers[3] > INT64_MAX) return false;
    site->num = numbers[0], site->denom = numbers[1];
    site->seed = numbers[2], site->limit = numbers[3];
    return pw_impairment_refused(0, site) == NULL;
}

bool pw_read_duration(pw_piece text, int64_t *out_ns)
{
    return read_quantity(text, durations, true, out_ns);
}

bool pw_read_size(pw_piece text, int64_t *out_bytes)
{
    return read_quantity(text, sizes, false, out_bytes);
}

static bool is_point_behind(const pw_cost_table *table, uint32_t idx)
{
    return !idx || (table->num_bytes[idx] > table->num_bytes[idx - 1] &&
                    table->cost_ns[idx] >= table->cost_ns[idx - 1]);
}

/* Digits, and then `until` or, with 0, anything. */
static bool take_part(pw_piece text, size_t *at, char until, int64_t *out)
{
    const size_t start = *at;
    uint64_t number = 0;
    if (!take_digits(text, at, &number) || *at == start || number > INT64_MAX) return false;
    *out = (int64_t)number;
    if (!until) return true;
    return *at < text.length && text.start[(*at)++] == until;
}

bool pw_read_table(pw_piece text, pw_cost_table *out)
{
    pw_cost_table table = {0};
    for (size_t at = 0; table.num_points < PW_COST_POINTS_MAX; at++) {
        const uint32_t idx = table.num_points++;
        if (!take_part(text, &at, ':', &table.num_bytes[idx]) ||
            !take_part(text, &at, 0, &table.cost_ns[idx]) || !is_point_behind(&table, idx))
            return false;
        if (at == text.length) {
            *out = table;
            return true;
        }
        if (text.start[at] != ' ') return false;
    }
    return false;
}
