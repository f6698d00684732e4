/* Transfer descriptor as the user writes it to a virtual channel [R5 2.3.3, 3.2.1]. */
#ifndef PW_R5SCHED_DESCRIPTOR_H
#define PW_R5SCHED_DESCRIPTOR_H
#include "native/types.h"

/* cdef begin */
typedef struct {
    uint64_t source_address;
    uint64_t destination_address;
    uint64_t destination_address_notification; /* multiple of 16 at the destination; 0: no
                                                  notification */
    uint64_t first_data_notification;          /* written there when the last block has arrived */
    uint64_t last_data_notification;           /* and 8 bytes behind it */
    uint32_t transfer_bytes;
    uint32_t done; /* write: 0 initiated, 2 ongoing, 1 completed; read: 2 free, 0 ongoing, and 2
                    * again in the step that completes it (1), so that 1 is never seen */
    uint64_t reserved[2]; /* PW_HINT_*, window in blocks (0: the setting); assumed: the sources name
                             no field */
} pw_descriptor;
/* cdef end */
_Static_assert(sizeof(pw_descriptor) == 64, "transfer descriptor");

static inline pw_notification pw_descriptor_notification(const pw_descriptor *descriptor)
{
    return (pw_notification){
        .address = descriptor->destination_address_notification,
        .data = {descriptor->first_data_notification, descriptor->last_data_notification},
    };
}
#endif
