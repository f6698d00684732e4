/* Netlink message from the fault driver's tasklet to the user-space library: hex digits, most
 * significant first, fields one behind the other [PSI 3.2]: source node 22 bits in 6
 * digits, transaction id 14 in 4, sequence number 14 in 4, page number, PDID 16 in 4, R/W 1 in 1.
 * The thesis gives the page 32 bits in 8 digits (27-bit page numbers of 39-bit addresses); hosts
 * with 48-bit addresses have 36-bit page numbers, so it has 9 digits here. Functions only. */
#ifndef PW_DRIVER_NETLINK_H
#define PW_DRIVER_NETLINK_H
#include "native/types.h"

#define PW_NETLINK_DIGITS 28
#define PW_NETLINK_PAGE_BITS (PW_USER_BITS - PW_PAGE_SHIFT)
_Static_assert(PW_NETLINK_PAGE_BITS == 36, "9 digits hold a page number");

typedef struct {
    uint32_t source_node;
    uint16_t transaction_id, sequence, pdid;
    uint64_t page;
    bool is_write; /* as FSYNR0.WNR: 1 = fault at the destination */
} pw_netlink_fields;

typedef struct {
    char digits[PW_NETLINK_DIGITS]; /* no NUL */
} pw_netlink_message;

/* PW_OK, or PW_ERR_INVALID when a field is wider than the format. */
int pw_netlink_pack(const pw_netlink_fields *fields, pw_netlink_message *out);
/* PW_OK, or PW_ERR_MALFORMED when a digit is none or a field wider than its bits. */
int pw_netlink_unpack(const pw_netlink_message *message, pw_netlink_fields *out);
#endif
