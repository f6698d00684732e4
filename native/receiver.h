/* What the NIC at the receiving end answers, and what it does with a block that it cannot take. The
 * translation unit gives the rules; the NI keeps them as destination, the firmware counts on them
 * as source. Without any of them it is PART's way: log, NACK, page in, ERR. Plain data. */
#ifndef PW_NATIVE_RECEIVER_H
#define PW_NATIVE_RECEIVER_H
#include "native/types.h"

/* NACK codes, 3 bits [R5 3.4] */
enum pw_nack_code {
    PW_NACK_NONE = 0,
    PW_NACK_PAGE_FAULT = 1, /* AXI slave error */
    PW_NACK_DECODE = 2,     /* AXI decode error: bad address */
    PW_NACK_NO_CONTEXT = 3,
    PW_NACK_CORRUPT = 4,
    PW_NACK_PROTECTION = 5,
    PW_NACK_RESERVED = 6,
    PW_NACK_BUFFER_FULL = 7,
    /* Of a NIC that goes back, no codes of [R5]: */
    PW_NACK_NOT_READY = 8, /* the receiver has no translation yet: pause, then from this block on */
    PW_NACK_SEQUENCE = 9,  /* a block, or a packet, before this one is missing */
    /* Of NP-RDMA's software: the block went to the signature page; argument0: when its pages are in
     */
    PW_NACK_MISSED = 10,
    PW_NACK_CODES
};

typedef struct {
    /* A block that is damaged, or of which a page has no translation, is dropped without a word:
     * the source's timer brings it again. */
    bool is_silent;
    bool keeps_order; /* and with it all that the same node sends until that one has come */
    /* Blocks of a transfer are taken in their order alone (go-back-N): a receiver that has no
     * translation says so, the source pauses for pause_ns, and then sends that block and what was
     * behind it again. */
    bool goes_back;
    pw_time pause_ns;
    /* A block of which a page has no translation yet is kept until it has: in a buffer of so many
     * blocks, or in the receive engine, which pauses. Without room it is dropped without a word. */
    bool keeps, pauses;
    uint32_t buffer_blocks;
    pw_time copy_page_ns; /* of a kept block, by software: each page that was missing; 0: none is */
    /* Software of the receiver brings the page in and tells when; the source's sends again then. */
    bool retries_two_sided;
    uint32_t own_nacks; /* codes beyond [R5]'s that it answers with: bit a code */
} pw_receiver_rules;

static inline bool pw_receiver_has_nack(const pw_receiver_rules *rules, uint32_t code)
{
    return code <= PW_NACK_BUFFER_FULL || rules->own_nacks >> code & 1;
}
#endif
