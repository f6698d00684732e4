#include "ni/packetizer.h"
#include <assert.h>

#define BASE UINT64_C(0x1234)
#define ID UINT64_C(0x0000aabbccddeeff)

static const pw_mailbox_word payload0 = {UINT64_C(0x5a17ffffffffffff),
                                         UINT64_C(0x0123456789abcdef)},
                             payload1 = {1, 2};
static pw_packet packet;

static pw_packetizer *made(void)
{
    pw_packetizer *packetizer = pw_packetizer_create();
    assert(pw_packetizer_write_trusted(packetizer, PW_TIF_IDS + 8 * 3, ID) == PW_OK);
    assert(pw_packetizer_write_trusted(packetizer, PW_TIF_IDS + 8 * 4, ID + 1) == PW_OK);
    assert(pw_packetizer_write_trusted(packetizer, PW_TIF_BASE_DEST,
                                       BASE << PW_DESTINATION_BASE_SHIFT) == PW_OK);
    assert(pw_packetizer_write_trusted(packetizer, PW_TIF_PID_CONF, 0x18) == PW_OK);
    return packetizer;
}

static int put(pw_packetizer *packetizer, uint32_t interface, uint32_t offset, int64_t at_ns)
{
    pw_mailbox_word destination = {pw_packet_destination(5, BASE, 9), 0};
    pw_mailbox_word value = offset == PW_PIF_PAYLOAD0   ? payload0
                            : offset == PW_PIF_PAYLOAD1 ? payload1
                                                        : destination;
    return pw_packetizer_write(packetizer, interface, offset, value, at_ns, &packet);
}

static void third_write_sends_in_any_order(void)
{
    static const uint32_t orders[6][3] = {
        {0x00, 0x10, 0x20}, {0x00, 0x20, 0x10}, {0x10, 0x00, 0x20},
        {0x10, 0x20, 0x00}, {0x20, 0x00, 0x10}, {0x20, 0x10, 0x00},
    };
    pw_packetizer *packetizer = made();
    for (int i = 0; i < 6; i++) {
        int64_t at_ns = 1000 * i;
        assert(put(packetizer, 3, orders[i][0], at_ns) == 0);
        assert(put(packetizer, 3, orders[i][1], at_ns) == 0);
        assert(pw_packetizer_status(packetizer, 3, at_ns) == (i ? PW_PIF_ACK : 0));
        packet = (pw_packet){.node = 0};
        assert(put(packetizer, 3, orders[i][2], at_ns) == 1);
        assert(packet.node == 5 && packet.fifo == 9);
        assert(packet.words[1].low == 1 && packet.words[1].high == 2);
        /* The user's bits 47:0 give way to the id. */
        assert(packet.words[0].low == (UINT64_C(0x5a17000000000000) | ID));
        assert(packet.words[0].high == payload0.high);
        assert(pw_packetizer_status(packetizer, 3, at_ns) == PW_PIF_PEND);
        pw_packetizer_answered(packetizer, 3, true, at_ns + 500);
        assert(pw_packetizer_status(packetizer, 3, at_ns + 499) == PW_PIF_PEND);
        assert(pw_packetizer_status(packetizer, 3, at_ns + 500) == PW_PIF_ACK);
    }
    pw_packetizer_destroy(packetizer);
}

/* Whatever a user writes to whatever place of his page: the id is that of the trusted page. */
static void sender_cannot_be_forged(void)
{
    pw_packetizer *packetizer = made();
    uint64_t value;
    for (uint32_t offset = 0; offset < 4096; offset += 8) {
        int code = pw_packetizer_write(packetizer, 3, offset, (pw_mailbox_word){0x666, UINT64_MAX},
                                       0, &packet);
        assert(code == (offset < 0x30 && offset % 16 == 0 ? 0 : PW_ERR_INVALID));
    }
    for (uint32_t i = 0; i < PW_PIFS; i++) {
        assert(pw_packetizer_read_trusted(packetizer, PW_TIF_IDS + 8 * i, &value) == PW_OK);
        assert(value == (i == 3 ? ID : i == 4 ? ID + 1 : 0));
    }
    assert(put(packetizer, 4, PW_PIF_PAYLOAD0, 0) == 0 &&
           put(packetizer, 4, PW_PIF_PAYLOAD1, 0) == 0);
    assert(put(packetizer, 4, PW_PIF_DESTINATION, 0) == 1);
    assert((packet.words[0].low & PW_SENDER_ID_MASK) == ID + 1);
    assert(pw_packetizer_write(packetizer, PW_PIFS, 0, payload0, 0, &packet) == PW_ERR_INVALID);
    pw_packetizer_destroy(packetizer);
}

static void interface_without_valid_bit_sends_nothing(void)
{
    pw_packetizer *packetizer = made();
    for (uint32_t offset = 0; offset < 0x30; offset += 0x10)
        assert(put(packetizer, 5, offset, 0) == 0);
    assert(pw_packetizer_status(packetizer, 5, 0) == 0);
    /* Nor does it keep what was written before it became valid. */
    pw_packetizer_write_trusted(packetizer, PW_TIF_PID_CONF, 0x20);
    assert(put(packetizer, 5, PW_PIF_DESTINATION, 0) == 0);
    pw_packetizer_destroy(packetizer);
}

static void destination_outside_of_the_base_is_illegal(void)
{
    pw_packetizer *packetizer = made();
    const pw_mailbox_word wrong = {pw_packet_destination(5, BASE + 1, 9), 0};
    put(packetizer, 3, PW_PIF_PAYLOAD0, 0);
    put(packetizer, 3, PW_PIF_PAYLOAD1, 0);
    assert(pw_packetizer_write(packetizer, 3, PW_PIF_DESTINATION, wrong, 0, &packet) == 0);
    assert(pw_packetizer_status(packetizer, 3, 0) == PW_PIF_ILLEGAL);
    for (uint32_t offset = 0; offset < 0x20; offset += 0x10) put(packetizer, 3, offset, 0);
    assert(put(packetizer, 3, PW_PIF_DESTINATION, 0) == 1);
    assert(pw_packetizer_status(packetizer, 3, 0) == PW_PIF_PEND);
    /* The next one clears the answer to the last one, also when it does not go. */
    pw_packetizer_answered(packetizer, 3, true, 10);
    put(packetizer, 3, PW_PIF_PAYLOAD0, 20);
    put(packetizer, 3, PW_PIF_PAYLOAD1, 20);
    assert(pw_packetizer_status(packetizer, 3, 20) == PW_PIF_ACK);
    assert(pw_packetizer_write(packetizer, 3, PW_PIF_DESTINATION, wrong, 20, &packet) == 0);
    assert(pw_packetizer_status(packetizer, 3, 20) == PW_PIF_ILLEGAL);
    pw_packetizer_destroy(packetizer);
}

static void one_buffer_an_interface(void)
{
    pw_packetizer *packetizer = made();
    put(packetizer, 3, PW_PIF_PAYLOAD0, 0);
    put(packetizer, 3, PW_PIF_PAYLOAD1, 0);
    assert(put(packetizer, 3, PW_PIF_DESTINATION, 0) == 1);
    assert(put(packetizer, 3, PW_PIF_PAYLOAD0, 1) == 0); /* lost: PEND is set */
    assert(pw_packetizer_status(packetizer, 3, 1) == (PW_PIF_PEND | PW_PIF_OVERWR_BUF));
    assert(put(packetizer, 4, PW_PIF_PAYLOAD0, 1) == 0); /* another interface does not mind */
    assert(pw_packetizer_status(packetizer, 4, 1) == 0);
    pw_packetizer_answered(packetizer, 3, false, 10);
    assert(pw_packetizer_status(packetizer, 3, 10) == (PW_PIF_NACK | PW_PIF_OVERWR_BUF));
    assert(pw_packetizer_write_trusted(packetizer, PW_TIF_CLR_REQ, 8) == PW_OK);
    assert(pw_packetizer_status(packetizer, 3, 10) == 0);
    put(packetizer, 3, PW_PIF_PAYLOAD1, 10);
    put(packetizer, 3, PW_PIF_DESTINATION, 10);
    assert(pw_packetizer_status(packetizer, 3, 10) == 0);
    put(packetizer, 3, PW_PIF_DESTINATION, 10);
    assert(pw_packetizer_status(packetizer, 3, 10) == PW_PIF_OVERWR_BUF);
    assert(put(packetizer, 3, PW_PIF_PAYLOAD0, 10) == 1);
    pw_packetizer_destroy(packetizer);
}

int main(void)
{
    third_write_sends_in_any_order();
    sender_cannot_be_forged();
    interface_without_valid_bit_sends_nothing();
    destination_outside_of_the_base_is_illegal();
    one_buffer_an_interface();
    return 0;
}
