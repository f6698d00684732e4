/* Names of spans, put together without the cost of a format string. */
#ifndef PW_RUN_TIMELINE_LABEL_H
#define PW_RUN_TIMELINE_LABEL_H
#include "run/timeline/lanes.h"

/* Zeroed: empty. What is longer is cut. */
typedef struct {
    size_t num_bytes;
    char text[PW_SPAN_NAME_BYTES];
} pw_name;

static inline void pw_name_text(pw_name *name, const char *text)
{
    while (*text && name->num_bytes < sizeof name->text) name->text[name->num_bytes++] = *text++;
}

static inline void pw_name_digits(pw_name *name, uint64_t value, unsigned base)
{
    char digits[20];
    size_t count = 0;
    do digits[count++] = "0123456789abcdef"[value % base];
    while (value /= base);
    while (count && name->num_bytes < sizeof name->text)
        name->text[name->num_bytes++] = digits[--count];
}

static inline void pw_name_number(pw_name *name, uint64_t value)
{
    pw_name_digits(name, value, 10);
}

static inline void pw_name_hex(pw_name *name, uint64_t value)
{
    pw_name_text(name, "0x");
    pw_name_digits(name, value, 16);
}

static inline pw_label pw_name_label(const pw_name *name)
{
    return (pw_label){name->text, name->num_bytes};
}
#endif
