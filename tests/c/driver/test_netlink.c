/* Netlink message: widths, order of the digits, limits of each field, and what is no message. */
#include <assert.h>
#include <string.h>

#include "driver/library_thread.h"

#define TEXT(source_node, transaction_id, sequence, page, pdid, is_write) \
    source_node transaction_id sequence page pdid is_write

static const pw_netlink_fields small = {.source_node = 0x12345,
                                        .transaction_id = 0x678,
                                        .sequence = 0x9ab,
                                        .pdid = 0xcd,
                                        .page = 0xef0123456,
                                        .is_write = true};
static const pw_netlink_fields largest = {.source_node = 0x3fffff,
                                          .transaction_id = 0x3fff,
                                          .sequence = 0x3fff,
                                          .pdid = 0xffff,
                                          .page = (UINT64_C(1) << 36) - 1,
                                          .is_write = true};

static pw_netlink_message text(const char *digits)
{
    pw_netlink_message message;
    assert(strlen(digits) == PW_NETLINK_DIGITS);
    memcpy(message.digits, digits, sizeof message.digits);
    return message;
}

static void expect(const pw_netlink_fields *fields, const char *digits)
{
    pw_netlink_message message, expected = text(digits);
    pw_netlink_fields back;
    assert(pw_netlink_pack(fields, &message) == PW_OK);
    assert(memcmp(message.digits, expected.digits, sizeof message.digits) == 0);
    assert(pw_netlink_unpack(&message, &back) == PW_OK);
    assert(back.source_node == fields->source_node &&
           back.transaction_id == fields->transaction_id);
    assert(back.sequence == fields->sequence && back.pdid == fields->pdid);
    assert(back.page == fields->page && back.is_write == fields->is_write);
}

static void refuse(pw_netlink_fields fields)
{
    pw_netlink_message message;
    assert(pw_netlink_pack(&fields, &message) == PW_ERR_INVALID);
}

static void refuse_text(const char *digits)
{
    pw_netlink_message message = text(digits);
    pw_netlink_fields fields;
    assert(pw_netlink_unpack(&message, &fields) == PW_ERR_MALFORMED);
}

int main(void)
{
    pw_netlink_fields none = {0}, fields = largest;
    expect(&small, TEXT("012345", "0678", "09ab", "ef0123456", "00cd", "1"));
    expect(&largest, TEXT("3fffff", "3fff", "3fff", "fffffffff", "ffff", "1"));
    expect(&none, TEXT("000000", "0000", "0000", "000000000", "0000", "0"));
    fields.source_node++;
    refuse(fields);
    fields = largest, fields.transaction_id++;
    refuse(fields);
    fields = largest, fields.sequence++;
    refuse(fields);
    fields = largest, fields.page++;
    refuse(fields);
    refuse_text(TEXT("400000", "0000", "0000", "000000000", "0000", "0")); /* wider than its bits */
    refuse_text(TEXT("000000", "4000", "0000", "000000000", "0000", "0"));
    refuse_text(TEXT("000000", "0000", "4000", "000000000", "0000", "0"));
    refuse_text(TEXT("000000", "0000", "0000", "000000000", "0000", "2"));
    refuse_text(TEXT("00000g", "0000", "0000", "000000000", "0000", "0")); /* no digits */
    refuse_text(TEXT("000000", "0000", "0000", "000000000", "000A", "0"));
    refuse_text(TEXT("000000", "0000", "0000", "000000000", " 000", "0"));
    return 0;
}
