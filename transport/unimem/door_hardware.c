/* Mailbox and packetizer of a host in C: see include/unimem.h. */
#include "native/status.h"
#include "transport/node/pagewire_state.h"
#include "transport/unimem/door_state.h"
#include "transport/unimem/state.h"

_Static_assert(UNIMEM_PAYLOAD0 == PW_PIF_PAYLOAD0 && UNIMEM_PAYLOAD1 == PW_PIF_PAYLOAD1 &&
                   UNIMEM_DESTINATION == PW_PIF_DESTINATION && UNIMEM_STATUS_PEND == PW_PIF_PEND &&
                   UNIMEM_STATUS_ILLEGAL == PW_PIF_ILLEGAL && UNIMEM_STATUS_NACK == PW_PIF_NACK &&
                   UNIMEM_STATUS_ACK == PW_PIF_ACK &&
                   UNIMEM_STATUS_OVERWR_BUF == PW_PIF_OVERWR_BUF &&
                   UNIMEM_EMPTY == PW_MAILBOX_EMPTY &&
                   UNIMEM_BURST_MAX_WORDS == PW_UNIMEM_BURST_MAX_WORDS &&
                   sizeof(unimem_word) == sizeof(pw_mailbox_word),
               "the numbers are the hardware's");

static int fail(unimem *self, int code, uint32_t interface, const char *what)
{
    return pw_door_fail(self->node, code, "%s of interface %u: %s", what, interface,
                        pw_status_text(code));
}

/* Take what is here; an interface that is not the caller's own is refused. */
static int begin(unimem *self, uint32_t interface, const char *what)
{
    if (!pw_unimem_is_open(self->unimem, interface, true))
        return pw_door_fail(self->node, PW_ERR_INVALID,
                            "%s of interface %u: allowed are those of unimem_open_interface", what,
                            interface);
    int moved = pw_door_move(self->node, false, true);
    return moved < 0 ? moved : PW_OK;
}

static pw_clock *clock_of(const unimem *self) { return pw_node_clock(self->node->node); }

static const pw_costs *costs_of(const unimem *self) { return self->unimem->costs; }

int unimem_open_interface(unimem *memory)
{
    pw_door_enter(memory->node);
    int interface = pw_unimem_open(memory->unimem, true);
    if (interface < 0)
        pw_door_fail(memory->node, interface, "an interface more: all 63 of the node are taken");
    return pw_door_leave(memory->node, interface);
}

int unimem_close_interface(unimem *memory, uint32_t interface)
{
    pw_door_enter(memory->node);
    int code = begin(memory, interface, "close");
    return pw_door_leave(memory->node,
                         code < 0 ? code : pw_unimem_close(memory->unimem, interface));
}

uint64_t unimem_destination(uint32_t node, uint32_t fifo)
{
    return pw_packet_destination(node, MAILBOX_BASE, fifo);
}

int unimem_write_register(unimem *memory, uint32_t interface, uint32_t offset, unimem_word value)
{
    const pw_mailbox_word written = {value.low, value.high};
    pw_door_enter(memory->node);
    int code = begin(memory, interface, "write");
    if (code < 0) return pw_door_leave(memory->node, code);
    int64_t posted_ns = pw_unimem_write_packetizer(memory->unimem, interface, offset, &written,
                                                   clock_of(memory)->now_ns);
    if (posted_ns < 0)
        return pw_door_leave(memory->node,
                             fail(memory, (int)posted_ns, interface, "register write"));
    clock_of(memory)->now_ns = posted_ns;
    return pw_door_leave(memory->node, PW_OK);
}

int unimem_read_status(unimem *memory, uint32_t interface)
{
    pw_door_enter(memory->node);
    int code = begin(memory, interface, "status");
    if (code < 0) return pw_door_leave(memory->node, code);
    code = (int)pw_unimem_status(memory->unimem, interface, clock_of(memory)->now_ns);
    clock_of(memory)->now_ns += costs_of(memory)->core_register_read_ns;
    return pw_door_leave(memory->node, code);
}

/* Until the burst's answer is known, and then until the clock is there: look by look. */
static int wait_for_write(unimem *self, uint32_t interface)
{
    int answer;
    int64_t started_ns = pw_clock_wall_ns();
    for (bool ran = true;
         pw_unimem_write_answer(self->unimem, interface, PW_NEVER - 1) == PW_ERR_FULL;
         ran = false) {
        int moved = pw_door_move(self->node, true, ran);
        if (moved < 0) return moved;
        if (moved) pw_node_busy(self->node->node);
        else pw_node_idle(self->node->node);
        if (self->options.wall_limit_ns > 0 &&
            pw_clock_wall_ns() - started_ns >= self->options.wall_limit_ns)
            return fail(self, PW_ERR_UNRECOVERABLE, interface, "burst, which nobody answers,");
    }
    while ((answer = pw_unimem_write_answer(self->unimem, interface, clock_of(self)->now_ns)) ==
           PW_ERR_FULL)
        clock_of(self)->now_ns += costs_of(self)->core_register_read_ns;
    return answer;
}

int unimem_write_fifo(unimem *memory, uint32_t interface, uint32_t node, uint32_t fifo,
                      const unimem_word *words, uint32_t num_words)
{
    pw_mailbox_word burst[UNIMEM_BURST_MAX_WORDS];
    pw_door_enter(memory->node);
    int code = begin(memory, interface, "burst");
    if (code == PW_OK && num_words > UNIMEM_BURST_MAX_WORDS)
        code = fail(memory, PW_ERR_INVALID, interface, "burst of more than 16 words");
    if (code < 0) return pw_door_leave(memory->node, code);
    for (uint32_t i = 0; i < num_words; i++)
        burst[i] = (pw_mailbox_word){words[i].low, words[i].high};
    int64_t posted_ns = pw_unimem_write_mailbox(memory->unimem, interface, node, fifo, burst,
                                                num_words, clock_of(memory)->now_ns);
    if (posted_ns < 0)
        return pw_door_leave(memory->node, fail(memory, (int)posted_ns, interface, "burst"));
    clock_of(memory)->now_ns = posted_ns;
    return pw_door_leave(memory->node, wait_for_write(memory, interface));
}

int unimem_read_fifo(unimem *memory, uint32_t interface, unimem_word *words, uint32_t num_words)
{
    uint32_t num_there = 0;
    pw_door_enter(memory->node);
    int code = begin(memory, interface, "read");
    if (code < 0) return pw_door_leave(memory->node, code);
    int64_t now_ns = clock_of(memory)->now_ns;
    for (uint32_t i = 0; i < num_words; i++) {
        pw_mailbox_word word;
        num_there += pw_unimem_read_mailbox(memory->unimem, interface, &word, 1, now_ns);
        words[i] = (unimem_word){word.low, word.high};
    }
    clock_of(memory)->now_ns += num_words * costs_of(memory)->mailbox_read_ns;
    return pw_door_leave(memory->node, (int)num_there);
}
