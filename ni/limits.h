/* What numbers an NI can be made with. Stateless. */
#ifndef PW_NI_LIMITS_H
#define PW_NI_LIMITS_H
#include "native/costs.h"
#include "native/settings.h"

/* cdef begin */
/* Name of the first setting or cost that is out of its range, NULL when all are fine. */
const char *pw_ni_refused(const pw_costs *costs, const pw_settings *settings);
/* cdef end */

#endif
