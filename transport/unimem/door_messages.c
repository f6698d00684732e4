/* Messages of 64 bits of a host in C: see include/unimem.h. */
#include "native/status.h"
#include "transport/node/pagewire_state.h"
#include "transport/unimem/door_state.h"

static int said(unimem *self, int code, const char *what, uint32_t number)
{
    if (code >= 0) return pw_door_leave(self->node, code);
    pw_door_fail(self->node, code, "%s %u: %s", what, number, pw_status_text(code));
    return pw_door_leave(self->node, code);
}

static pw_kernel_mailbox *mailbox_of(const unimem *self)
{
    return pw_unimem_kernel_mailbox(self->unimem);
}

/* What was written to devices goes before. */
int unimem_send(unimem *memory, uint32_t node, uint64_t value)
{
    pw_door_enter(memory->node);
    pw_clock *clock = pw_node_clock(memory->node->node);
    int code = pw_unimem_send_written(memory->unimem, clock->now_ns);
    if (code < 0) return said(memory, code, "message to node", node);
    int64_t posted_ns = pw_unimem_send_value(memory->unimem, node, value, clock->now_ns);
    if (posted_ns < 0) return said(memory, (int)posted_ns, "message to node", node);
    clock->now_ns = posted_ns;
    return said(memory, PW_OK, "", 0);
}

int unimem_register(unimem *memory, uint32_t opcode,
                    void (*callback)(void *context, uint32_t source, uint64_t value,
                                     int64_t time_ns),
                    void *context)
{
    pw_door_enter(memory->node);
    return said(memory, pw_kernel_mailbox_register(mailbox_of(memory), opcode, callback, context),
                "callback for opcode", opcode);
}

int unimem_unregister(unimem *memory, uint32_t opcode)
{
    pw_door_enter(memory->node);
    return said(memory, pw_kernel_mailbox_unregister(mailbox_of(memory), opcode),
                "callback for opcode", opcode);
}

int unimem_act(unimem *memory, char action, uint32_t opcode, int number)
{
    pw_door_enter(memory->node);
    return said(memory, pw_kernel_mailbox_act(mailbox_of(memory), action, opcode, number),
                "action for opcode", opcode);
}

int unimem_device(unimem *memory, uint32_t node)
{
    pw_door_enter(memory->node);
    return said(memory, pw_kernel_mailbox_device(mailbox_of(memory), node), "device of node", node);
}
