/* What an atomic operation is on the wire: payloads of two kinds of message. */
#ifndef PW_FABRIC_ATOMIC_FRAMES_H
#define PW_FABRIC_ATOMIC_FRAMES_H
#include <stdint.h>

/* Begins the payload of a request; operands and, where the operation compares, compares follow. */
typedef struct {
    uint64_t id, address, key;
    uint32_t count;
    uint16_t type, operation;
    uint8_t wants_old;
    uint8_t reserved[7];
} pw_fi_atomic_request;
_Static_assert(sizeof(pw_fi_atomic_request) == 40, "request of an atomic operation");

/* Begins the payload of an answer; the old values follow where they were wanted. */
typedef struct {
    uint64_t id;
    int32_t error; /* FI_E* */
    uint32_t num_bytes;
} pw_fi_atomic_answer;
_Static_assert(sizeof(pw_fi_atomic_answer) == 16, "answer to an atomic operation");
#endif
