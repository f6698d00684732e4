/* Values of a node file: from text into the fields of a struct, strictly and whatever the locale.
 * Each function answers PW_OK, or PW_ERR_INVALID with a phrase in `allowed` that says what the
 * value may be; the field is untouched then. Stateless, thread-safe. */
#ifndef PW_NODE_CONFIG_VALUES_H
#define PW_NODE_CONFIG_VALUES_H
#include "transport/node/fields.h"

#define PW_VALUE_ALLOWED_BYTES 160

/* owner: the struct. low, high: of a whole number. PW_ERR_NOMEM: no memory for the C locale. */
int pw_value_read_field(const char *text, const pw_field *field, void *owner, int64_t low,
                        int64_t high, char allowed[PW_VALUE_ALLOWED_BYTES]);
/* `bytes:ns bytes:ns ...` */
int pw_value_read_table(const char *text, pw_cost_table *out, char allowed[PW_VALUE_ALLOWED_BYTES]);
/* `num denom seed limit amount_ns` */
int pw_value_read_site(const char *text, pw_impairment_site *out,
                       char allowed[PW_VALUE_ALLOWED_BYTES]);
/* The number at *text, which goes on behind it; false: none, or above `high`. */
bool pw_value_take_uint64(const char **text, uint64_t high, uint64_t *out);
/* Undo the writer's escapes in place: \\ and \n. False: another one. */
bool pw_value_unescape(char *text);
#endif
