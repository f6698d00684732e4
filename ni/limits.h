/* What numbers an NI can be made with. Stateless. */
#ifndef PW_NI_LIMITS_H
#define PW_NI_LIMITS_H
#include "native/costs.h"
#include "native/settings.h"

/* cdef begin */
/* Name of the first setting or cost that pw_ni_create refuses, NULL when all are fine. */
const char *pw_ni_refused(const pw_costs *costs, const pw_settings *settings);
/* The same as a sentence with value and remedy, cut to num_bytes with its 0; false: all are fine.
 */
bool pw_ni_explain_refusal(const pw_costs *costs, const pw_settings *settings, char *text,
                           size_t num_bytes);
/* cdef end */

#endif
