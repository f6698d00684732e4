#include "unimem/kernel_mailbox.h"
#include "native/array.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct {
    pw_kernel_callback callback; /* of the kernel */
    void *context;
    char action; /* of the user; 0: none */
    int number;
} taker;

/* What its socket has no room for waits in the order of arrival. */
typedef struct {
    bool is_open;
    int user, kernel;
    pw_kernel_message *waiting;
    uint32_t first, end, capacity;
} device;

struct pw_kernel_mailbox {
    uint32_t num_nodes, next_looked;
    taker takers[UNIMEM_OPCODES];
    device devices[];
};

pw_kernel_mailbox *pw_kernel_mailbox_create(uint32_t num_nodes)
{
    pw_kernel_mailbox *mailbox = calloc(1, sizeof *mailbox + num_nodes * sizeof *mailbox->devices);
    if (mailbox) mailbox->num_nodes = num_nodes;
    return mailbox;
}

void pw_kernel_mailbox_destroy(pw_kernel_mailbox *mailbox)
{
    if (!mailbox) return;
    for (uint32_t i = 0; i < mailbox->num_nodes; i++) {
        free(mailbox->devices[i].waiting);
        if (!mailbox->devices[i].is_open) continue;
        close(mailbox->devices[i].user);
        close(mailbox->devices[i].kernel);
    }
    free(mailbox);
}

static bool is_taken(const taker *of) { return of->callback || of->action; }

int pw_kernel_mailbox_register(pw_kernel_mailbox *mailbox, uint32_t opcode,
                               pw_kernel_callback callback, void *context)
{
    if (opcode >= UNIMEM_OPCODES || !callback) return PW_ERR_INVALID;
    taker *of = &mailbox->takers[opcode];
    if (is_taken(of)) return PW_ERR_FULL;
    *of = (taker){.callback = callback, .context = context};
    return PW_OK;
}

int pw_kernel_mailbox_unregister(pw_kernel_mailbox *mailbox, uint32_t opcode)
{
    if (opcode >= UNIMEM_OPCODES || !mailbox->takers[opcode].callback) return PW_ERR_INVALID;
    mailbox->takers[opcode] = (taker){.action = 0};
    return PW_OK;
}

int pw_kernel_mailbox_act(pw_kernel_mailbox *mailbox, char action, uint32_t opcode, int number)
{
    if (opcode >= UNIMEM_OPCODES || !action || !strchr("rseu", action)) return PW_ERR_INVALID;
    if (action == 's' && (number < 1 || number > SIGRTMAX)) return PW_ERR_INVALID;
    if (action == 'e' && number < 0) return PW_ERR_INVALID;
    taker *of = &mailbox->takers[opcode];
    if (action == 'u') {
        if (!of->action) return PW_ERR_INVALID;
        *of = (taker){.action = 0};
        return PW_OK;
    }
    if (is_taken(of)) return PW_ERR_FULL;
    *of = (taker){.action = action, .number = number};
    return PW_OK;
}

int pw_kernel_mailbox_device(pw_kernel_mailbox *mailbox, uint32_t node)
{
    int ends[2];
    if (node >= mailbox->num_nodes) return PW_ERR_INVALID;
    device *of = &mailbox->devices[node];
    if (of->is_open) return of->user;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) return PW_ERR_HOST;
    of->is_open = true;
    of->user = ends[0];
    of->kernel = ends[1];
    return of->user;
}

/* As much as the socket takes. */
static int push(device *of)
{
    while (of->first < of->end) {
        const pw_kernel_message *message = &of->waiting[of->first];
        if (send(of->kernel, message, sizeof *message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
            return errno == EAGAIN || errno == ENOBUFS ? PW_OK : PW_ERR_HOST;
        of->first++;
    }
    of->first = of->end = 0;
    return PW_OK;
}

static int keep(device *of, const pw_kernel_message *message)
{
    if (PW_ARRAY_MAKE_ROOM(of->waiting, of->end, of->capacity, 64) < 0) return PW_ERR_NOMEM;
    of->waiting[of->end++] = *message;
    return PW_OK;
}

static int tell(const taker *of)
{
    static const uint64_t one = 1;
    if (of->action == 's' && kill(getpid(), of->number) < 0) return PW_ERR_HOST;
    /* A counter at its end already says that something is here. */
    if (of->action == 'e' && write(of->number, &one, sizeof one) < 0 && errno != EAGAIN)
        return PW_ERR_HOST;
    return PW_OK;
}

int pw_kernel_mailbox_arrived(pw_kernel_mailbox *mailbox, uint32_t source, uint64_t value,
                              int64_t time_ns)
{
    const taker *of = &mailbox->takers[value >> UNIMEM_OPCODE_SHIFT];
    const pw_kernel_message message = {value, time_ns};
    if (of->callback) {
        of->callback(of->context, source, value, time_ns);
        return 1;
    }
    if (!of->action) return 0;
    int code = pw_kernel_mailbox_device(mailbox, source);
    if (code >= 0) code = keep(&mailbox->devices[source], &message);
    if (code >= 0) code = push(&mailbox->devices[source]);
    if (code >= 0) code = tell(of);
    return code < 0 ? code : 1;
}

int pw_kernel_mailbox_written(pw_kernel_mailbox *mailbox, uint32_t *node, uint64_t *value)
{
    for (; mailbox->next_looked < mailbox->num_nodes; mailbox->next_looked++) {
        device *of = &mailbox->devices[mailbox->next_looked];
        if (!of->is_open) continue;
        int code = push(of);
        if (code < 0) return code;
        if (recv(of->kernel, value, sizeof *value, MSG_DONTWAIT) != (ssize_t)sizeof *value)
            continue; /* nothing, or no message of ours */
        *node = mailbox->next_looked;
        return 1;
    }
    mailbox->next_looked = 0;
    return 0;
}
