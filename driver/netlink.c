#include "driver/netlink.h"

enum { SOURCE_NODE, TRANSACTION_ID, SEQUENCE, PAGE, PDID, IS_WRITE, NUM_FIELDS };
static const struct {
    uint8_t bits, digits;
} widths[NUM_FIELDS] = {{22, 6}, {14, 4}, {14, 4}, {PW_NETLINK_PAGE_BITS, 9}, {16, 4}, {1, 1}};
_Static_assert(6 + 4 + 4 + 9 + 4 + 1 == PW_NETLINK_DIGITS, "the fields fill the message");

int pw_netlink_pack(const pw_netlink_fields *fields, pw_netlink_message *out)
{
    const uint64_t values[NUM_FIELDS] = {fields->source_node, fields->transaction_id,
                                         fields->sequence,    fields->page,
                                         fields->pdid,        fields->is_write};
    uint32_t end = 0;
    for (int i = 0; i < NUM_FIELDS; i++) {
        uint64_t rest = values[i];
        if (rest >> widths[i].bits) return PW_ERR_INVALID;
        end += widths[i].digits;
        for (uint32_t digit = 1; digit <= widths[i].digits; digit++, rest >>= 4)
            out->digits[end - digit] = "0123456789abcdef"[rest & 15];
    }
    return PW_OK;
}

static int digit_value(char digit)
{
    if (digit >= '0' && digit <= '9') return digit - '0';
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

int pw_netlink_unpack(const pw_netlink_message *message, pw_netlink_fields *out)
{
    uint64_t values[NUM_FIELDS] = {0};
    const char *next = message->digits;
    for (int i = 0; i < NUM_FIELDS; i++) {
        for (uint32_t digit = 0; digit < widths[i].digits; digit++) {
            int value = digit_value(*next++);
            if (value < 0) return PW_ERR_MALFORMED;
            values[i] = values[i] << 4 | (uint64_t)value;
        }
        if (values[i] >> widths[i].bits) return PW_ERR_MALFORMED;
    }
    *out = (pw_netlink_fields){
        .source_node = (uint32_t)values[SOURCE_NODE],
        .transaction_id = (uint16_t)values[TRANSACTION_ID],
        .sequence = (uint16_t)values[SEQUENCE],
        .page = values[PAGE],
        .pdid = (uint16_t)values[PDID],
        .is_write = values[IS_WRITE] != 0,
    };
    return PW_OK;
}
