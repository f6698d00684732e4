/* Unimem of a host in C: see include/unimem.h. */
#include "include/unimem.h"
#include "native/status.h"
#include "transport/node/pagewire_state.h"
#include "transport/unimem/door_state.h"
#include <stdlib.h>
#include <string.h>

typedef unsigned long long printed;

_Static_assert(UNIMEM_DENY_OTHERS_READ == PW_DENY_OTHERS_READ &&
                   UNIMEM_DENY_OTHERS_WRITE == PW_DENY_OTHERS_WRITE &&
                   UNIMEM_DENY_NODE_READ == PW_DENY_NODE_READ &&
                   UNIMEM_DENY_NODE_WRITE == PW_DENY_NODE_WRITE &&
                   UNIMEM_PAGE_BYTES == PW_PAGE_BYTES && UNIMEM_OPCODES == PW_KERNEL_OPCODES &&
                   UNIMEM_OPCODE_SHIFT == PW_KERNEL_OPCODE_SHIFT,
               "the numbers are the services'");

static uint64_t spawn(void *context, const pw_fork_request *wanted)
{
    const unimem *self = context;
    const unimem_fork_request request = {wanted->name, wanted->argument, wanted->parent,
                                         wanted->at_ns};
    return self->options.spawn(self->options.context, &request);
}

static int create_parts(unimem *self)
{
    int code = pw_unimem_on_node_create(self->node->node, self->options.spawn ? spawn : NULL, self,
                                        &self->on_node);
    if (code < 0) return pw_door_fail_as_node(self->node, code);
    self->unimem = pw_unimem_of_node(self->on_node);
    int interface = pw_unimem_open(self->unimem, false); /* the first one: it is free */
    self->interface = (uint32_t)interface;
    return PW_OK;
}

int unimem_create(pagewire_node *node, const unimem_options *options, unimem **out)
{
    pw_door_enter(node);
    unimem *self = calloc(1, sizeof *self);
    if (!self) return pw_door_leave(node, pw_door_fail(node, PW_ERR_NOMEM, "no memory for Unimem"));
    self->node = node;
    int code = PW_OK;
    if (options && !pw_door_copy_struct(&self->options, sizeof self->options, options))
        code = pw_door_fail(node, PW_ERR_INVALID,
                            "unimem_options.struct_size = %zu: allowed is sizeof(unimem_options) "
                            "of this library's unimem.h",
                            options->struct_size);
    if (code == PW_OK) code = create_parts(self);
    if (code == PW_OK) {
        *out = self;
        return pw_door_leave(node, PW_OK);
    }
    free(self);
    return pw_door_leave(node, code);
}

void unimem_destroy(unimem *memory)
{
    if (!memory) return;
    pw_door_enter(memory->node);
    pw_unimem_on_node_destroy(memory->on_node);
    pw_door_leave(memory->node, PW_OK);
    free(memory);
}

uint32_t unimem_num_nodes(const unimem *memory) { return pw_node_count(memory->node->node); }
uint32_t unimem_node(const unimem *memory) { return pw_node_number(memory->node->node); }
uint64_t unimem_id(const unimem *memory) { return pw_unimem_id(memory->unimem, memory->interface); }

/* ---- operations */

static const struct {
    int code;
    const char *text;
} refusals[PW_UNIMEM_ERRORS] = {
    [PW_UNIMEM_BAD_OPCODE] = {PW_ERR_INVALID, "the service does not know the operation"},
    [PW_UNIMEM_NO_PAGE] = {PW_ERR_ADDRESS, "there is no such page; it was not allocated, or freed"},
    [PW_UNIMEM_DENIED] = {PW_ERR_PROTECTION, "the page's rights forbid it; see unimem_alloc"},
    [PW_UNIMEM_NO_MEMORY] = {PW_ERR_FULL, "the node has no shared memory left; free pages, or "
                                          "raise its unimem.memory"},
    [PW_UNIMEM_BAD_ARGUMENT] = {PW_ERR_INVALID, "an argument is out of its range: at least one "
                                                "page, known rights, the first page to free"},
    [PW_UNIMEM_NO_FORK] = {PW_ERR_INVALID, "the node starts no such thing"},
};

typedef struct {
    const char *name;
    uint8_t opcode;
    uint32_t owner;
    uint64_t address, argument[2];
} operation;

/* 1: *out; 0: no answer in the wall time that there is; or a code. */
static int wait_for_answer(unimem *self, pw_unimem_answer *out)
{
    int64_t started_ns = pw_clock_wall_ns();
    pw_node *node = self->node->node;
    pw_clock *clock = pw_node_clock(node);
    int found;
    for (bool ran = true;; ran = false) {
        found = pw_unimem_test(self->unimem, self->interface, out);
        if (found < 0 || found == 1) return found;
        if (found == 2) {
            clock->now_ns = pw_later(clock->now_ns, out->complete_ns);
            int64_t posted_ns = pw_unimem_post_again(self->unimem, self->interface, clock->now_ns);
            if (posted_ns < 0) return (int)posted_ns;
            clock->now_ns = posted_ns;
        }
        int moved = pw_door_move(self->node, true, ran);
        if (moved < 0) return moved;
        if (moved) pw_node_busy(node);
        else pw_node_idle(node);
        if (self->options.wall_limit_ns > 0 &&
            pw_clock_wall_ns() - started_ns >= self->options.wall_limit_ns)
            return 0;
    }
}

static int give_up(unimem *self, const operation *wanted)
{
    pw_unimem_forget(self->unimem, self->interface);
    int interface = pw_unimem_open(self->unimem, false);
    if (interface < 0)
        return pw_door_fail(self->node, interface,
                            "%s: 63 requests have not been answered: no interface is left",
                            wanted->name);
    self->interface = (uint32_t)interface;
    return pw_door_fail(self->node, PW_ERR_UNRECOVERABLE,
                        "%s at %#llx: node %u has not answered within %lld ms of wall time",
                        wanted->name, (printed)wanted->address, wanted->owner,
                        (long long)(self->options.wall_limit_ns / 1000000));
}

static int ask(unimem *self, const operation *wanted, uint64_t *result)
{
    pw_unimem_answer answer;
    pw_clock *clock = pw_node_clock(self->node->node);
    if (wanted->owner >= pw_node_count(self->node->node))
        return pw_door_fail(self->node, PW_ERR_INVALID, "%s at %#llx: there are nodes 0 to %u",
                            wanted->name, (printed)wanted->address,
                            pw_node_count(self->node->node) - 1);
    /* Who only looks at his own pages must see what others do to them. */
    int moved = pw_door_move(self->node, false, true);
    if (moved < 0) return moved;
    int64_t posted_ns =
        pw_unimem_post(self->unimem, self->interface, wanted->owner, wanted->opcode,
                       wanted->address, wanted->argument[0], wanted->argument[1], clock->now_ns);
    int code = posted_ns < 0 ? (int)posted_ns : PW_OK;
    if (code == PW_OK) {
        clock->now_ns = posted_ns;
        code = wait_for_answer(self, &answer);
        if (code == 0) return give_up(self, wanted);
    }
    if (code < 0)
        return pw_door_fail(self->node, code, "%s at %#llx: %s", wanted->name,
                            (printed)wanted->address, pw_status_text(code));
    clock->now_ns = pw_later(clock->now_ns, answer.complete_ns);
    if (!answer.error) {
        *result = answer.result;
        return PW_OK;
    }
    uint64_t error = answer.error < PW_UNIMEM_ERRORS ? answer.error : PW_UNIMEM_BAD_OPCODE;
    return pw_door_fail(self->node, refusals[error].code, "%s at %#llx of node %u: %s",
                        wanted->name, (printed)wanted->address, wanted->owner,
                        refusals[error].text);
}

static int operate(unimem *self, const char *name, uint8_t opcode, uint64_t address,
                   uint64_t argument1, uint64_t argument2, uint64_t *result)
{
    const operation wanted = {
        name, opcode, (uint32_t)(address >> PW_UNIMEM_NODE_SHIFT), address, {argument1, argument2}};
    pw_door_enter(self->node);
    return pw_door_leave(self->node, ask(self, &wanted, result));
}

int unimem_alloc(unimem *memory, uint32_t node, uint16_t num_pages, uint32_t denied,
                 uint64_t *address)
{
    const operation wanted = {
        .name = "alloc", .opcode = PW_UNIMEM_ALLOC, .owner = node, .argument = {num_pages, denied}};
    pw_door_enter(memory->node);
    return pw_door_leave(memory->node, ask(memory, &wanted, address));
}

int unimem_free(unimem *memory, uint64_t address)
{
    uint64_t none;
    return operate(memory, "free", PW_UNIMEM_FREE, address, 0, 0, &none);
}

int unimem_read8(unimem *memory, uint64_t address, uint8_t *value)
{
    uint64_t result;
    int code = operate(memory, "read8", PW_UNIMEM_READ8, address, 0, 0, &result);
    if (code == PW_OK) *value = (uint8_t)result;
    return code;
}

int unimem_read32(unimem *memory, uint64_t address, uint32_t *value)
{
    uint64_t result;
    int code = operate(memory, "read32", PW_UNIMEM_READ32, address, 0, 0, &result);
    if (code == PW_OK) *value = (uint32_t)result;
    return code;
}

int unimem_read64(unimem *memory, uint64_t address, uint64_t *value)
{
    return operate(memory, "read64", PW_UNIMEM_READ64, address, 0, 0, value);
}

int unimem_read4k(unimem *memory, uint64_t address, void *buffer)
{
    uint64_t num_bytes;
    int code = operate(memory, "read4k", PW_UNIMEM_READ4K, address, 0, 0, &num_bytes);
    if (code < 0) return code;
    memcpy(buffer, pw_unimem_page(memory->unimem, memory->interface), UNIMEM_PAGE_BYTES);
    return UNIMEM_PAGE_BYTES;
}

int unimem_write8(unimem *memory, uint64_t address, uint8_t value)
{
    uint64_t none;
    return operate(memory, "write8", PW_UNIMEM_WRITE8, address, value, 0, &none);
}

int unimem_write32(unimem *memory, uint64_t address, uint32_t value)
{
    uint64_t none;
    return operate(memory, "write32", PW_UNIMEM_WRITE32, address, value, 0, &none);
}

int unimem_write64(unimem *memory, uint64_t address, uint64_t value)
{
    uint64_t none;
    return operate(memory, "write64", PW_UNIMEM_WRITE64, address, value, 0, &none);
}

int unimem_write128(unimem *memory, uint64_t address, uint64_t low, uint64_t high)
{
    uint64_t none;
    return operate(memory, "write128", PW_UNIMEM_WRITE128, address, low, high, &none);
}

int unimem_cas(unimem *memory, uint64_t address, uint64_t expected, uint64_t wanted)
{
    uint64_t was;
    int code = operate(memory, "cas", PW_UNIMEM_CAS, address, expected, wanted, &was);
    return code < 0 ? code : (int)was;
}

int unimem_faa(unimem *memory, uint64_t address, uint64_t value, uint64_t *old)
{
    uint64_t none;
    return operate(memory, "faa", PW_UNIMEM_FAD, address, value, 0, old ? old : &none);
}

int unimem_swap(unimem *memory, uint64_t address, uint64_t value, uint64_t *old)
{
    uint64_t none;
    return operate(memory, "swap", PW_UNIMEM_SWAP, address, value, 0, old ? old : &none);
}

/* The page with the description at the target. */
static int describe(unimem *memory, uint64_t page, const char *name, uint64_t argument)
{
    size_t num_bytes = strlen(name) + 1;
    int code = unimem_write64(memory, page, argument);
    for (size_t at = 0; code == PW_OK && at < num_bytes; at += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, name + at, num_bytes - at < sizeof word ? num_bytes - at : sizeof word);
        code = unimem_write64(memory, page + PW_FORK_NAME_OFFSET + at, word);
    }
    return code;
}

int unimem_fork(unimem *memory, uint32_t node, const char *name, uint64_t argument, uint64_t *child)
{
    uint64_t page, id = 0;
    if (strlen(name) >= UNIMEM_PAGE_BYTES - PW_FORK_NAME_OFFSET)
        return pw_door_fail(memory->node, PW_ERR_INVALID,
                            "fork of a name of %zu bytes: a page holds its description",
                            strlen(name));
    int code = unimem_alloc(memory, node, 1, 0, &page);
    if (code < 0) return code;
    code = describe(memory, page, name, argument);
    const operation wanted = {
        .name = "fork", .opcode = PW_UNIMEM_FORK, .owner = node, .argument = {page, 0}};
    if (code == PW_OK) {
        pw_door_enter(memory->node);
        code = pw_door_leave(memory->node, ask(memory, &wanted, &id));
    }
    if (code < 0) {
        /* The reason is the fork's own; the page stays where even that fails. */
        const pw_sentence reason = memory->node->reason;
        unimem_free(memory, page);
        memory->node->reason = reason;
        return code;
    }
    if (child) *child = id;
    return unimem_free(memory, page);
}
