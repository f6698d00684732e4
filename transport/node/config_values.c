#include "transport/node/config_values.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((format(printf, 2, 3))) static int refuse(char *allowed, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(allowed, PW_VALUE_ALLOWED_BYTES, format, arguments);
    va_end(arguments);
    return PW_ERR_INVALID;
}

bool pw_value_take_uint64(const char **text, uint64_t high, uint64_t *out)
{
    const char *at = *text;
    uint64_t value = 0;
    if (*at < '0' || *at > '9') return false;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
            return false;
    }
    if (value > high) return false;
    *text = at;
    *out = value;
    return true;
}

static bool read_int64(const char *text, int64_t *out)
{
    bool is_negative = *text == '-';
    uint64_t size, largest = (uint64_t)INT64_MAX + is_negative;
    text += is_negative;
    if (!pw_value_take_uint64(&text, largest, &size) || *text) return false;
    *out = is_negative ? (int64_t)(0 - size) : (int64_t)size;
    return true;
}

/* Not by strtod alone: a program may have set a locale that writes 1,5. */
static int read_double(const char *text, double *out, char *allowed)
{
    char *end;
    bool is_plain = *text && strspn(text, "0123456789+-.eE") == strlen(text);
    locale_t c_locale = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (!c_locale) return PW_ERR_NOMEM;
    double value = strtod_l(text, &end, c_locale);
    freelocale(c_locale);
    if (!is_plain || *end || !isfinite(value)) return refuse(allowed, "a finite number");
    *out = value;
    return PW_OK;
}

bool pw_value_unescape(char *text)
{
    char *to = text;
    for (; *text; text++) {
        if (*text == '\\') {
            text++;
            if (*text != '\\' && *text != 'n') return false;
            *to++ = *text == 'n' ? '\n' : '\\';
        } else {
            *to++ = *text;
        }
    }
    *to = '\0';
    return true;
}

static int read_text(const char *text, char *out, uint32_t num_bytes, char *allowed)
{
    char *plain = strdup(text);
    if (!plain) return PW_ERR_NOMEM;
    int code = PW_OK;
    if (!pw_value_unescape(plain))
        code = refuse(allowed, "a text in which \\ stands before \\ or n alone");
    else if (strlen(plain) >= num_bytes)
        code = refuse(allowed, "a text of at most %" PRIu32 " bytes", num_bytes - 1);
    else strcpy(out, plain);
    free(plain);
    return code;
}

int pw_value_read_field(const char *text, const pw_field *field, void *owner, int64_t low,
                        int64_t high, char allowed[PW_VALUE_ALLOWED_BYTES])
{
    char *at = (char *)owner + field->offset;
    int64_t number;
    switch (field->kind) {
    case PW_FIELD_DOUBLE: return read_double(text, (double *)(void *)at, allowed);
    case PW_FIELD_TEXT: return read_text(text, at, field->count, allowed);
    case PW_FIELD_FLAG:
        if (!read_int64(text, &number) || number < 0 || number > 1)
            return refuse(allowed, "0 or 1");
        *(bool *)at = number;
        return PW_OK;
    case PW_FIELD_INT64:
        if (!read_int64(text, &number) || number < low || number > high)
            return refuse(allowed, "a whole number from %" PRId64 " to %" PRId64, low, high);
        *(int64_t *)(void *)at = number;
        return PW_OK;
    default: return refuse(allowed, "nothing: its type is not for files");
    }
}

int pw_value_read_table(const char *text, pw_cost_table *out, char allowed[PW_VALUE_ALLOWED_BYTES])
{
    pw_cost_table table = {0};
    uint64_t size, cost;
    while (table.num_points < PW_COST_POINTS_MAX) {
        if (!pw_value_take_uint64(&text, INT64_MAX, &size) || *text++ != ':' ||
            !pw_value_take_uint64(&text, INT64_MAX, &cost))
            break;
        uint32_t idx = table.num_points++;
        table.num_bytes[idx] = (int64_t)size;
        table.cost_ns[idx] = (int64_t)cost;
        if (idx && (table.num_bytes[idx] <= table.num_bytes[idx - 1] ||
                    table.cost_ns[idx] < table.cost_ns[idx - 1]))
            break;
        if (!*text) {
            *out = table;
            return PW_OK;
        }
        if (*text++ != ' ') break;
    }
    return refuse(allowed,
                  "1 to %d points `bytes:ns` with a space between, sizes rising and times not "
                  "falling, each from 0 to %" PRId64,
                  PW_COST_POINTS_MAX, INT64_MAX);
}

int pw_value_read_site(const char *text, pw_impairment_site *out,
                       char allowed[PW_VALUE_ALLOWED_BYTES])
{
    static const uint64_t highest[5] = {PW_IMPAIRMENT_DENOM_MAX, PW_IMPAIRMENT_DENOM_MAX,
                                        UINT64_MAX, UINT64_MAX, PW_IMPAIRMENT_AMOUNT_MAX_NS};
    uint64_t numbers[5];
    int num = 0;
    while (num < 5 && pw_value_take_uint64(&text, highest[num], &numbers[num])) {
        num++;
        if (*text != ' ' || num == 5) break;
        text++;
    }
    if (num < 5 || *text || numbers[1] < 1 || numbers[0] > numbers[1])
        return refuse(allowed,
                      "`num denom seed limit amount_ns` with num <= denom, denom from 1 to %d, "
                      "amount_ns to %lld",
                      PW_IMPAIRMENT_DENOM_MAX, (long long)PW_IMPAIRMENT_AMOUNT_MAX_NS);
    *out = (pw_impairment_site){.num = numbers[0],
                                .denom = numbers[1],
                                .seed = numbers[2],
                                .limit = numbers[3],
                                .amount_ns = (int64_t)numbers[4]};
    return PW_OK;
}
