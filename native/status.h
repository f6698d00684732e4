/* What the status codes of types.h are called, mean, and ask for. Stateless. */
#ifndef PW_NATIVE_STATUS_H
#define PW_NATIVE_STATUS_H
#include "native/types.h"

/* cdef begin */
/* "PW_ERR_NOMEM"; NULL: there is no such negative code. */
const char *pw_status_name(int code);
/* What it means and what to do, as one sentence; for PW_ERR_HOST errno tells the second. */
const char *pw_status_text(int code);
/* cdef end */
#endif
