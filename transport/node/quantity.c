#include "transport/node/quantity.h"
#include <ctype.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#define TOLERANCE 1e-6         /* 1.1us is 1100.0000000000002 ns in binary */
#define EXACT_MAX (1ull << 53) /* up to here and 10^22 a double is what the digits say */
#define EXPONENT_MAX 22

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

static double power_of_ten(int64_t exponent)
{
    double power = 1;
    while (exponent-- > 0) power *= 10; /* exact up to 10^22 */
    return power;
}

static bool take_exponent(pw_piece text, size_t *at, int64_t *exponent)
{
    size_t start = *at;
    if (start >= text.length || (text.start[start] | 32) != 'e') return true;
    bool is_signed =
        start + 1 < text.length && (text.start[start + 1] == '-' || text.start[start + 1] == '+');
    size_t digits = start + 1 + is_signed;
    if (digits >= text.length || !isdigit((unsigned char)text.start[digits])) return true;
    uint64_t number = 0;
    if (!take_digits(text, &digits, &number) || number > 1000) return false;
    *exponent += is_signed && text.start[start + 1] == '-' ? -(int64_t)number : (int64_t)number;
    *at = digits;
    return true;
}

/* A number with point and exponent, whatever the locale; *rest: the unit behind it. */
bool pw_read_decimal(pw_piece text, double *out, pw_piece *rest)
{
    size_t at = text.length && (text.start[0] == '-' || text.start[0] == '+') ? 1 : 0;
    size_t first_digit = at;
    uint64_t digits = 0;
    int64_t exponent = 0;
    if (!take_digits(text, &at, &digits) || at == first_digit) return false;
    if (at + 1 < text.length && text.start[at] == '.' &&
        isdigit((unsigned char)text.start[at + 1])) {
        size_t point = at++;
        if (!take_digits(text, &at, &digits)) return false;
        exponent = -(int64_t)(at - point - 1);
    }
    if (!take_exponent(text, &at, &exponent)) return false;
    if (digits > EXACT_MAX || exponent > EXPONENT_MAX || exponent < -EXPONENT_MAX) return false;
    double number = exponent < 0 ? (double)digits / power_of_ten(-exponent)
                                 : (double)digits * power_of_ten(exponent);
    *out = text.start[0] == '-' ? -number : number;
    *rest = pw_piece_strip(text.start + at, text.length - at);
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
