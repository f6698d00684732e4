/* Reads a value from a piece of text, as native/settings.py does: numbers, durations, sizes,
 * truths, sites of impairments and cost tables, whatever the locale. Each tells whether the whole
 * piece is one, and writes *out only then. Stateless. */
#ifndef PW_NODE_SETTINGS_QUANTITY_H
#define PW_NODE_SETTINGS_QUANTITY_H
#include "native/impairments.h"
#include "node/settings/cost_table.h"

typedef struct {
    const char *start;
    size_t length;
} pw_piece;

/* Without the blanks at both ends. */
pw_piece pw_piece_strip(const char *start, size_t length);
bool pw_piece_is(pw_piece text, const char *word);
/* The same, in capitals or not. */
bool pw_piece_is_word(pw_piece text, const char *word);

bool pw_read_whole(pw_piece text, int64_t *out);
/* With point and exponent; *rest: what stands behind, such as a unit. */
bool pw_read_decimal(pw_piece text, double *out, pw_piece *rest);
bool pw_read_bool(pw_piece text, int64_t *out);
/* 1.5ms; the unit must be there. */
bool pw_read_duration(pw_piece text, int64_t *out_ns);
/* 64KiB, or bytes. */
bool pw_read_size(pw_piece text, int64_t *out_bytes);
/* num:denom:seed or num:denom:seed:limit (0: none); amount_ns stays. */
bool pw_read_site(pw_piece text, pw_impairment_site *out);
/* bytes:ns bytes:ns ...; sizes rise and times do not fall. */
bool pw_read_table(pw_piece text, pw_cost_table *out);
#endif
