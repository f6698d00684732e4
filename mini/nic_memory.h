/* What the memory of the NIC holds, in bytes, for each translation unit and its settings: a table
 * like the thesis's 1.1. Sizes of entries are the thesis's [MINI 1.2, 3]; what is assumed stands
 * beside it in nic_memory.c. Plain data. */
#ifndef PW_MINI_NIC_MEMORY_H
#define PW_MINI_NIC_MEMORY_H
#include "native/settings.h"

/* cdef begin */
typedef struct {
    int64_t code_bytes, buffer_bytes; /* program; data on its way */
    int64_t vmh_bytes, cbh_bytes, imported_bytes, process_bytes;
    int64_t total_bytes;
} pw_nic_memory;

void pw_nic_memory_of(const pw_settings *settings, pw_nic_memory *out);
/* cdef end */
#endif
