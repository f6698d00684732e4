/* Unimem of a host in C: see include/unimem.h; and what a host in Python shares with it, see
 * door.h. */
#include "unimem/door.h"
#include "native/status.h"
#include "unimem/forks.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long printed;

_Static_assert(UNIMEM_PAYLOAD0 == PW_PIF_PAYLOAD0 && UNIMEM_PAYLOAD1 == PW_PIF_PAYLOAD1 &&
                   UNIMEM_DESTINATION == PW_PIF_DESTINATION && UNIMEM_STATUS_PEND == PW_PIF_PEND &&
                   UNIMEM_STATUS_ILLEGAL == PW_PIF_ILLEGAL && UNIMEM_STATUS_NACK == PW_PIF_NACK &&
                   UNIMEM_STATUS_ACK == PW_PIF_ACK &&
                   UNIMEM_STATUS_OVERWR_BUF == PW_PIF_OVERWR_BUF &&
                   UNIMEM_EMPTY == PW_MAILBOX_EMPTY && UNIMEM_PAGE_BYTES == PW_PAGE_BYTES &&
                   sizeof(unimem_word) == sizeof(pw_mailbox_word),
               "the numbers are the hardware's");

static pw_node *node_of(const unimem *self) { return pw_door_node(self->node); }

static pw_clock *clock_of(const unimem *self) { return pw_node_clock(node_of(self)); }

static bool is_cpu(const unimem *self) { return self->cpu == self; }

/* Its clock, with the node locked. */
static int64_t *now_of(unimem *self)
{
    return is_cpu(self) ? &clock_of(self)->now_ns : &self->now_ns;
}

/* Its node is another process's. */
static bool is_program(const unimem *self) { return self->program.link != NULL; }

static void enter(unimem *self)
{
    if (is_program(self)) pw_program_link_lock(self->program.link);
    else if (is_cpu(self)) pw_door_enter(self->node);
    else pw_node_lock(node_of(self));
}

static int leave(unimem *self, int result)
{
    if (is_program(self)) pw_program_link_unlock(self->program.link);
    else if (is_cpu(self)) return pw_door_leave(self->node, result);
    else pw_node_unlock(node_of(self));
    return result;
}

/* As pw_door_fail, for a program too. */
__attribute__((format(printf, 3, 4))) static int fail(unimem *self, int code, const char *format,
                                                      ...)
{
    va_list arguments;
    pw_sentence said;
    pw_sentence_clear(&said);
    va_start(arguments, format);
    pw_sentence_add_list(&said, format, arguments);
    va_end(arguments);
    if (!is_program(self)) return pw_door_fail(self->node, code, "%s", said.text);
    self->program.reason = said;
    return code;
}

const char *unimem_reason(const unimem *memory)
{
    return is_program(memory) ? memory->program.reason.text : pagewire_reason(memory->node);
}

/* Enter for what a program has not. */
static int enter_node(unimem *self, const char *what)
{
    if (is_program(self))
        return fail(self, PW_ERR_INVALID,
                    "%s: a program that a remote fork has started has the operations of shared "
                    "memory alone",
                    what);
    pw_door_enter(self->node);
    return PW_OK;
}

static int take_interface(unimem *self)
{
    int interface = pw_unimem_open(self->unimem, false);
    if (interface >= 0) self->interface = (uint32_t)interface;
    return interface;
}

/* ---- the node's service: called with the node locked */

static int send_frame(void *context, uint32_t peer, const uint8_t *data, uint32_t num_bytes)
{
    uint8_t *frame = pw_node_take_frame(context);
    if (!frame) return PW_ERR_NOMEM;
    memcpy(frame, data, num_bytes);
    return pw_node_send_frame(context, peer, frame, num_bytes);
}

static int receive(void *context, uint32_t source, const uint8_t *frame, uint32_t frame_bytes)
{
    const unimem *self = context;
    if (frame[offsetof(pw_envelope, kind)] >= PW_MESSAGE_OF_DMA)
        return pw_dma_receive(self->dma, source, frame, frame_bytes);
    int code = pw_unimem_receive(self->unimem, source, frame, frame_bytes);
    while (code >= 0 && (code = pw_unimem_serve(self->unimem)) > 0) continue;
    return code;
}

static uint64_t spawn(void *context, const unimem_fork_request *wanted)
{
    unimem *self = context;
    if (self->options.spawn) return self->options.spawn(self->options.context, wanted);
    return pw_forks_start(self, wanted);
}

static int turned(void *context) { return pw_dma_move(((const unimem *)context)->dma); }

static int create_parts(unimem *self)
{
    pw_node *node = node_of(self);
    const pw_unimem_host host = {
        .context = node, .send = send_frame, .spawn_context = self, .spawn = spawn};
    const pw_node_service service = {.context = self, .message = receive, .turned = turned};
    int code = pw_unimem_create(pw_node_ni(node), pw_node_costs(node), pw_node_ni_settings(node),
                                pw_node_number(node), pw_node_count(node), &host, &self->unimem);
    if (code < 0) return pw_door_fail(self->node, code, "Unimem: %s", pw_status_text(code));
    code = pw_dma_create(self->node, &self->dma);
    if (code == PW_OK) code = pw_node_set_service(node, &service, PW_UNIMEM_FRAME_MAX_BYTES);
    if (code < 0) return pw_door_fail_as_node(self->node, code);
    take_interface(self); /* the first one: it is free */
    return PW_OK;
}

static void finish(unimem *self)
{
    pw_dma_destroy(self->dma);
    pw_unimem_destroy(self->unimem);
    free(self);
}

int unimem_create(pagewire_node *node, const unimem_options *options, unimem **out)
{
    pw_door_enter(node);
    unimem *self = calloc(1, sizeof *self);
    if (!self) return pw_door_leave(node, pw_door_fail(node, PW_ERR_NOMEM, "no memory for Unimem"));
    self->node = node;
    self->cpu = self;
    int code = PW_OK;
    if (options && !pw_door_copy_struct(&self->options, sizeof self->options, options))
        code = pw_door_fail(node, PW_ERR_INVALID,
                            "unimem_options.struct_size = %zu: allowed is sizeof(unimem_options) "
                            "of this library's unimem.h",
                            options->struct_size);
    if (code == PW_OK) code = create_parts(self);
    if (code == PW_OK) *out = self;
    else finish(self);
    return pw_door_leave(node, code);
}

void unimem_destroy(unimem *memory)
{
    if (!memory) return;
    if (is_program(memory)) {
        pw_program_link_destroy(memory->program.link);
        free(memory);
        return;
    }
    pagewire_node *node = memory->node;
    pw_forks_stop(memory);
    pw_door_enter(node);
    pw_node_set_service(node_of(memory), NULL, 0);
    finish(memory);
    pw_door_leave(node, PW_OK);
}

/* ---- threads */

uint32_t unimem_num_nodes(const unimem *memory)
{
    return is_program(memory) ? memory->program.facts.num_nodes : pw_node_count(node_of(memory));
}

uint32_t unimem_node(const unimem *memory)
{
    return is_program(memory) ? memory->program.facts.node : pw_node_number(node_of(memory));
}

uint64_t unimem_id(const unimem *memory)
{
    return is_program(memory) ? memory->program.facts.id
                              : pw_unimem_id(memory->unimem, memory->interface);
}

int unimem_forked(unimem **out, uint64_t *argument)
{
    unimem *made = calloc(1, sizeof *made);
    if (!made) return PW_ERR_NOMEM;
    made->cpu = made;
    int code = pw_program_link_create(&made->program.link, &made->program.facts);
    if (code < 0) {
        free(made);
        return code;
    }
    *out = made;
    *argument = made->program.facts.argument;
    return PW_OK;
}

int pw_thread_create(unimem *cpu, int64_t start_ns, unimem **out)
{
    unimem *self = malloc(sizeof *self);
    if (!self) return PW_ERR_NOMEM;
    *self = *cpu;
    self->now_ns = start_ns;
    int interface = take_interface(self);
    if (interface < 0) {
        free(self);
        return interface;
    }
    *out = self;
    return PW_OK;
}

void pw_thread_close(unimem *thread)
{
    pw_node_lock(node_of(thread));
    pw_unimem_close(thread->unimem, thread->interface);
    pw_node_unlock(node_of(thread));
}

void pw_thread_destroy(unimem *thread) { free(thread); }

pw_unimem *pw_thread_unimem(const unimem *thread) { return thread->unimem; }
uint32_t pw_thread_interface(const unimem *thread) { return thread->interface; }

void pw_thread_set_wall_limit(unimem *thread, int64_t wall_limit_ns)
{
    thread->cpu->options.wall_limit_ns = wall_limit_ns;
}

int64_t pw_thread_now_ns(unimem *thread) { return *now_of(thread); }

void pw_thread_spend(unimem *thread, int64_t duration_ns, int64_t until_ns)
{
    pw_node_lock(node_of(thread));
    int64_t *now_ns = now_of(thread);
    *now_ns = pw_later(*now_ns + duration_ns, until_ns);
    pw_node_unlock(node_of(thread));
}

static void see(unimem *self, int64_t at_ns)
{
    int64_t *now_ns = now_of(self);
    *now_ns = pw_later(*now_ns, at_ns) + (is_cpu(self) ? pw_door_look_ns(self->node) : 0);
}

void pw_thread_completed(unimem *thread, int64_t at_ns)
{
    pw_node_lock(node_of(thread));
    see(thread, at_ns);
    pw_node_unlock(node_of(thread));
}

pw_door_wait pw_thread_wait(const unimem *thread)
{
    return (pw_door_wait){.limit_ns = thread->cpu->options.wall_limit_ns,
                          .is_of_another = !is_cpu(thread)};
}

/* ---- operations */

/* 1: *out; 0: no answer in the wall time that there is; or a code. */
static int wait_for_answer(unimem *self, pw_unimem_answer *out)
{
    pw_door_wait wait = pw_thread_wait(self);
    for (;;) {
        int found = pw_unimem_test(self->unimem, self->interface, out);
        if (found < 0) return found;
        if (found) see(self, out->complete_ns);
        if (found == 1) return found;
        if (found == 2) {
            int64_t posted_ns = pw_unimem_post_again(self->unimem, self->interface, *now_of(self));
            if (posted_ns < 0) return (int)posted_ns;
            *now_of(self) = posted_ns;
        }
        int moved = pw_door_step(self->node, &wait);
        if (moved < 0) return moved;
        if (pw_door_is_late(&wait) || self->is_stopped) return 0;
    }
}

/* The same by the process that has the node. */
static int ask_by_link(unimem *self, const pw_program_request *request, pw_unimem_answer *out)
{
    pw_program_side *program = &self->program;
    pw_program_answer answer;
    int code = pw_program_link_ask(program->link, request, &answer, program->page);
    if (code == PW_ERR_UNRECOVERABLE)
        return fail(self, code, "the process of node %u has ended", program->facts.node);
    if (code < 0)
        return fail(self, code, "request to node %u: %s", request->owner, pw_status_text(code));
    *out = (pw_unimem_answer){.error = answer.error, .result = answer.result};
    return code;
}

static int ask(unimem *self, uint32_t owner, uint8_t opcode, uint64_t address,
               const uint64_t argument[2], pw_unimem_answer *out)
{
    if (is_program(self)) {
        const pw_program_request request = {address, {argument[0], argument[1]}, owner, opcode};
        return ask_by_link(self, &request, out);
    }
    /* Who only looks at his own pages must see what others do to them. */
    int code = pw_door_move(self->node, false, true);
    if (code < 0) return code;
    int64_t posted_ns = pw_unimem_post(self->unimem, self->interface, owner, opcode, address,
                                       argument[0], argument[1], *now_of(self));
    if (posted_ns < 0)
        return pw_door_fail(self->node, (int)posted_ns, "request to node %u: %s", owner,
                            pw_status_text((int)posted_ns));
    *now_of(self) = posted_ns;
    code = wait_for_answer(self, out);
    if (code == 1) return 1;
    pw_unimem_close(self->unimem, self->interface);
    int interface = take_interface(self);
    if (interface >= 0) return code;
    return pw_door_fail(self->node, interface,
                        "63 requests have not been answered: no interface is left");
}

int pw_thread_ask(unimem *thread, uint32_t owner, uint8_t opcode, uint64_t address,
                  uint64_t argument1, uint64_t argument2, pw_unimem_answer *answer)
{
    const uint64_t argument[2] = {argument1, argument2};
    enter(thread);
    return leave(thread, ask(thread, owner, opcode, address, argument, answer));
}

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
    [PW_UNIMEM_NO_FORK] = {PW_ERR_INVALID, "the node cannot start it: no such function, no thread "
                                           "left of its 63, or no memory"},
    [PW_UNIMEM_NO_FILE] = {PW_ERR_ADDRESS, "there is no such file at the node; name it from its "
                                           "process's folder, or from /"},
    [PW_UNIMEM_NOT_EXECUTABLE] = {PW_ERR_PROTECTION, "it is no file that may be executed; see "
                                                     "chmod +x"},
};

typedef struct {
    const char *name;
    uint8_t opcode;
    uint32_t owner;
    uint64_t address, argument[2];
    void *page; /* where a page that is read goes; NULL: another operation */
} operation;

/* What `ask` has answered, as a code with its reason. */
static int judge(unimem *self, const operation *wanted, int code, const pw_unimem_answer *answer)
{
    const char *name = wanted->name;
    printed address = wanted->address;
    if (code < 0) return code;
    if (code == 0)
        return fail(self, PW_ERR_UNRECOVERABLE,
                    "%s at %#llx: node %u has not answered within %lld ms of wall time", name,
                    address, wanted->owner,
                    (long long)(self->cpu->options.wall_limit_ns / 1000000));
    if (!answer->error) return PW_OK;
    uint64_t error = answer->error < PW_UNIMEM_ERRORS ? answer->error : PW_UNIMEM_BAD_OPCODE;
    return fail(self, refusals[error].code, "%s at %#llx of node %u: %s", name, address,
                wanted->owner, refusals[error].text);
}

static const uint8_t *page_of(const unimem *self)
{
    return is_program(self) ? self->program.page : pw_unimem_page(self->unimem, self->interface);
}

/* result: NULL where nobody wants it. */
static int operate_at(unimem *self, const operation *wanted, uint64_t *result)
{
    pw_unimem_answer answer;
    uint32_t num_nodes = unimem_num_nodes(self);
    enter(self);
    if (wanted->owner >= num_nodes)
        return leave(self, fail(self, PW_ERR_INVALID, "%s at %#llx: there are nodes 0 to %u",
                                wanted->name, (printed)wanted->address, num_nodes - 1));
    int code = ask(self, wanted->owner, wanted->opcode, wanted->address, wanted->argument, &answer);
    code = judge(self, wanted, code, &answer);
    if (code == PW_OK && result) *result = answer.result;
    /* while no other thread can ask for the next one */
    if (code == PW_OK && wanted->page) memcpy(wanted->page, page_of(self), UNIMEM_PAGE_BYTES);
    return leave(self, code);
}

/* The owner of the address is asked. */
static operation operation_at(const char *name, uint8_t opcode, uint64_t address)
{
    return (operation){.name = name,
                       .opcode = opcode,
                       .owner = (uint32_t)(address >> PW_UNIMEM_NODE_SHIFT),
                       .address = address};
}

static int operate(unimem *self, const char *name, uint8_t opcode, uint64_t address,
                   uint64_t argument1, uint64_t argument2, uint64_t *result)
{
    operation wanted = operation_at(name, opcode, address);
    wanted.argument[0] = argument1;
    wanted.argument[1] = argument2;
    return operate_at(self, &wanted, result);
}

int unimem_alloc(unimem *memory, uint32_t node, uint16_t num_pages, uint32_t denied,
                 uint64_t *address)
{
    const operation wanted = {
        .name = "alloc", .opcode = PW_UNIMEM_ALLOC, .owner = node, .argument = {num_pages, denied}};
    return operate_at(memory, &wanted, address);
}

int unimem_free(unimem *memory, uint64_t address)
{
    return operate(memory, "free", PW_UNIMEM_FREE, address, 0, 0, NULL);
}

int unimem_read8(unimem *memory, uint64_t address, uint8_t *value)
{
    uint64_t result = 0;
    int code = operate(memory, "read8", PW_UNIMEM_READ8, address, 0, 0, &result);
    if (code == PW_OK) *value = (uint8_t)result;
    return code;
}

int unimem_read32(unimem *memory, uint64_t address, uint32_t *value)
{
    uint64_t result = 0;
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
    operation wanted = operation_at("read4k", PW_UNIMEM_READ4K, address);
    wanted.page = buffer;
    int code = operate_at(memory, &wanted, NULL);
    return code < 0 ? code : UNIMEM_PAGE_BYTES;
}

int unimem_write8(unimem *memory, uint64_t address, uint8_t value)
{
    return operate(memory, "write8", PW_UNIMEM_WRITE8, address, value, 0, NULL);
}

int unimem_write32(unimem *memory, uint64_t address, uint32_t value)
{
    return operate(memory, "write32", PW_UNIMEM_WRITE32, address, value, 0, NULL);
}

int unimem_write64(unimem *memory, uint64_t address, uint64_t value)
{
    return operate(memory, "write64", PW_UNIMEM_WRITE64, address, value, 0, NULL);
}

int unimem_write128(unimem *memory, uint64_t address, uint64_t low, uint64_t high)
{
    return operate(memory, "write128", PW_UNIMEM_WRITE128, address, low, high, NULL);
}

int unimem_cas(unimem *memory, uint64_t address, uint64_t expected, uint64_t wanted)
{
    uint64_t was = 0;
    int code = operate(memory, "cas", PW_UNIMEM_CAS, address, expected, wanted, &was);
    return code < 0 ? code : (int)was;
}

int unimem_faa(unimem *memory, uint64_t address, uint64_t value, uint64_t *old)
{
    return operate(memory, "faa", PW_UNIMEM_FAD, address, value, 0, old);
}

int unimem_swap(unimem *memory, uint64_t address, uint64_t value, uint64_t *old)
{
    return operate(memory, "swap", PW_UNIMEM_SWAP, address, value, 0, old);
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
        return fail(memory, PW_ERR_INVALID,
                    "fork of a name of %zu bytes: a page holds its description", strlen(name));
    int code = unimem_alloc(memory, node, 1, 0, &page);
    if (code < 0) return code;
    code = describe(memory, page, name, argument);
    const operation wanted = {
        .name = "fork", .opcode = PW_UNIMEM_FORK, .owner = node, .argument = {page, 0}};
    if (code == PW_OK) code = operate_at(memory, &wanted, &id);
    if (code < 0) {
        /* The reason is the fork's own; the page stays where even that fails. */
        pw_unimem_answer none;
        pw_thread_ask(memory, node, PW_UNIMEM_FREE, page, 0, 0, &none);
        return code;
    }
    if (child) *child = id;
    return unimem_free(memory, page);
}

/* ---- messages of 64 bits */

/* The end of a call. */
static int said(unimem *self, int code, const char *what, uint32_t number)
{
    if (code < 0) pw_door_fail(self->node, code, "%s %u: %s", what, number, pw_status_text(code));
    return pw_door_leave(self->node, code);
}

/* The CPU goes on when its core has posted something at posted_ns; or a code. */
static int posted(const unimem *self, int64_t posted_ns)
{
    if (posted_ns < 0) return (int)posted_ns;
    clock_of(self)->now_ns = posted_ns;
    return PW_OK;
}

static pw_kernel_mailbox *mailbox_of(const unimem *self)
{
    return pw_unimem_kernel_mailbox(self->unimem);
}

int pw_thread_send_written(unimem *thread)
{
    enter(thread);
    int code = pw_door_move(thread->node, false, true);
    if (code >= 0) code = pw_unimem_send_written(thread->unimem, *now_of(thread));
    return leave(thread, code);
}

/* What was written to devices goes before. */
int unimem_send(unimem *memory, uint32_t node, uint64_t value)
{
    int entered = enter_node(memory, "message");
    if (entered < 0) return entered;
    int64_t now_ns = clock_of(memory)->now_ns;
    int code = pw_unimem_send_written(memory->unimem, now_ns);
    if (code < 0) return said(memory, code, "message to node", node);
    code = posted(memory, pw_unimem_send_value(memory->unimem, node, value, now_ns));
    return said(memory, code, "message to node", node);
}

int unimem_register(unimem *memory, uint32_t opcode,
                    void (*callback)(void *context, uint32_t source, uint64_t value,
                                     int64_t time_ns),
                    void *context)
{
    int entered = enter_node(memory, "callback");
    if (entered < 0) return entered;
    return said(memory, pw_kernel_mailbox_register(mailbox_of(memory), opcode, callback, context),
                "callback for opcode", opcode);
}

int unimem_unregister(unimem *memory, uint32_t opcode)
{
    int entered = enter_node(memory, "callback");
    if (entered < 0) return entered;
    return said(memory, pw_kernel_mailbox_unregister(mailbox_of(memory), opcode),
                "callback for opcode", opcode);
}

int unimem_act(unimem *memory, char action, uint32_t opcode, int number)
{
    int entered = enter_node(memory, "action");
    if (entered < 0) return entered;
    return said(memory, pw_kernel_mailbox_act(mailbox_of(memory), action, opcode, number),
                "action for opcode", opcode);
}

int unimem_device(unimem *memory, uint32_t node)
{
    int entered = enter_node(memory, "device");
    if (entered < 0) return entered;
    return said(memory, pw_kernel_mailbox_device(mailbox_of(memory), node), "device of node", node);
}

/* ---- the hardware itself */

/* Enter and take what is here; an interface that is not the caller's own is refused. On failure the
 * node is left again. */
static int begin(unimem *self, uint32_t interface, const char *what)
{
    int entered = enter_node(self, what);
    if (entered < 0) return entered;
    if (!pw_unimem_is_open(self->unimem, interface, true))
        return pw_door_leave(self->node, pw_door_fail(self->node, PW_ERR_INVALID,
                                                      "%s of interface %u: allowed are those of "
                                                      "unimem_open_interface",
                                                      what, interface));
    int moved = pw_door_move(self->node, false, true);
    return moved < 0 ? pw_door_leave(self->node, moved) : PW_OK;
}

static const pw_costs *costs_of(const unimem *self) { return pw_node_costs(node_of(self)); }

int unimem_open_interface(unimem *memory)
{
    int entered = enter_node(memory, "interface");
    if (entered < 0) return entered;
    int interface = pw_unimem_open(memory->unimem, true);
    if (interface < 0)
        pw_door_fail(memory->node, interface, "an interface more: all 63 of the node are taken");
    return pw_door_leave(memory->node, interface);
}

int unimem_close_interface(unimem *memory, uint32_t interface)
{
    int code = begin(memory, interface, "close");
    if (code < 0) return code;
    return pw_door_leave(memory->node, pw_unimem_close(memory->unimem, interface));
}

uint64_t unimem_destination(uint32_t node, uint32_t fifo)
{
    return pw_unimem_destination(node, fifo);
}

int unimem_write_register(unimem *memory, uint32_t interface, uint32_t offset, unimem_word value)
{
    const pw_mailbox_word written = {value.low, value.high};
    int code = begin(memory, interface, "write");
    if (code < 0) return code;
    code = posted(memory, pw_unimem_write_packetizer(memory->unimem, interface, offset, &written,
                                                     clock_of(memory)->now_ns));
    return said(memory, code, "register write of interface", interface);
}

int unimem_read_status(unimem *memory, uint32_t interface)
{
    int code = begin(memory, interface, "status");
    if (code < 0) return code;
    code = (int)pw_unimem_status(memory->unimem, interface, clock_of(memory)->now_ns);
    clock_of(memory)->now_ns += costs_of(memory)->core_register_read_ns;
    return pw_door_leave(memory->node, code);
}

/* Until the burst's answer is known, and then until the clock is there: look by look. */
static int wait_for_write(unimem *self, uint32_t interface)
{
    int answer;
    pw_door_wait wait = pw_thread_wait(self);
    while (pw_unimem_write_answer(self->unimem, interface, PW_NEVER - 1) == PW_ERR_FULL) {
        int moved = pw_door_step(self->node, &wait);
        if (moved < 0) return moved;
        if (pw_door_is_late(&wait))
            return pw_door_fail(self->node, PW_ERR_UNRECOVERABLE,
                                "burst, which nobody answers, of interface %u: %s", interface,
                                pw_status_text(PW_ERR_UNRECOVERABLE));
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
    int code = begin(memory, interface, "burst");
    if (code < 0) return code;
    if (num_words > UNIMEM_BURST_MAX_WORDS)
        return said(memory, PW_ERR_INVALID, "burst of more than 16 words of interface", interface);
    for (uint32_t i = 0; i < num_words; i++)
        burst[i] = (pw_mailbox_word){words[i].low, words[i].high};
    code = posted(memory, pw_unimem_write_mailbox(memory->unimem, interface, node, fifo, burst,
                                                  num_words, clock_of(memory)->now_ns));
    if (code < 0) return said(memory, code, "burst of interface", interface);
    return pw_door_leave(memory->node, wait_for_write(memory, interface));
}

int unimem_read_fifo(unimem *memory, uint32_t interface, unimem_word *words, uint32_t num_words)
{
    uint32_t num_there = 0;
    int code = begin(memory, interface, "read");
    if (code < 0) return code;
    int64_t now_ns = clock_of(memory)->now_ns;
    for (uint32_t i = 0; i < num_words; i++) {
        pw_mailbox_word word;
        num_there += pw_unimem_read_mailbox(memory->unimem, interface, &word, 1, now_ns);
        words[i] = (unimem_word){word.low, word.high};
    }
    clock_of(memory)->now_ns += num_words * costs_of(memory)->mailbox_read_ns;
    return pw_door_leave(memory->node, (int)num_there);
}
