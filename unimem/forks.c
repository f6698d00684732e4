#include "unimem/forks.h"
#include "native/status.h"
#include "unimem/program.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The node's lock guards what two threads see. */
struct pw_fork {
    pw_fork *next;
    unimem *thread; /* of the node */
    pthread_t server;
    pw_program *program; /* NULL: not started yet, or over */
    pw_program_facts facts;
    bool is_over;
    char file[PW_PAGE_BYTES];
    char failure[256]; /* of what it died; empty: it did not */
};

static pw_node *node_of(const pw_fork *self) { return pw_door_node(self->thread->node); }

static void serve(pw_fork *self, pw_program *program)
{
    pw_program_request request;
    while (pw_program_next(program, &request)) {
        pw_unimem_answer said = {0};
        int code = PW_ERR_INVALID;
        if (request.opcode < PW_UNIMEM_OPCODES && request.owner < self->facts.num_nodes)
            code = pw_thread_ask(self->thread, request.owner, (uint8_t)request.opcode,
                                 request.address, request.argument[0], request.argument[1], &said);
        const pw_program_answer answer = {.error = said.error, .result = said.result, .code = code};
        bool has_page = request.opcode == PW_UNIMEM_READ4K && code == 1 && !said.error;
        pw_program_answer_it(
            program, &answer,
            has_page ? pw_unimem_page(self->thread->unimem, self->thread->interface) : NULL);
    }
}

/* The host's thread. It starts the process, which ends with it. */
static void *run(void *context)
{
    pw_fork *self = context;
    pw_program *program = NULL;
    char failure[sizeof self->failure] = "";
    pw_node_lock(node_of(self));
    bool is_stopped = self->thread->is_stopped;
    int code = is_stopped ? PW_OK : pw_program_start(self->file, &self->facts, &program);
    self->program = program;
    pw_node_unlock(node_of(self));
    if (code < 0)
        snprintf(failure, sizeof failure, "%.120s could not be started: %s", self->file,
                 code == PW_ERR_HOST ? strerror(errno) : pw_status_text(code));
    if (program) {
        serve(self, program);
        pw_node_lock(node_of(self));
        self->program = NULL; /* nobody kills it any more: its number may be another one's */
        pw_node_unlock(node_of(self));
        if (pw_program_end(program, failure)) failure[0] = 0;
    }
    pw_thread_close(self->thread);
    pw_node_lock(node_of(self));
    memcpy(self->failure, failure, sizeof failure);
    self->is_over = true;
    pw_node_unlock(node_of(self));
    return NULL;
}

uint64_t pw_forks_start(unimem *cpu, const unimem_fork_request *wanted)
{
    uint64_t refusal = pw_program_check(wanted->name);
    if (refusal) return refusal;
    if (pw_door_is_joined(cpu->node)) return 0; /* nodes of one thread: nobody could serve it */
    pw_fork *made = calloc(1, sizeof *made);
    if (!made) return 0;
    if (pw_thread_create(cpu, wanted->time_ns, &made->thread) < 0) {
        free(made);
        return 0;
    }
    made->facts = (pw_program_facts){.id = unimem_id(made->thread),
                                     .argument = wanted->argument,
                                     .node = unimem_node(cpu),
                                     .num_nodes = unimem_num_nodes(cpu)};
    snprintf(made->file, sizeof made->file, "%s", wanted->name);
    if (pthread_create(&made->server, NULL, run, made)) {
        pw_unimem_close(cpu->unimem, made->thread->interface);
        pw_thread_destroy(made->thread);
        free(made);
        return 0;
    }
    made->next = cpu->forks;
    cpu->forks = made;
    return made->facts.id;
}

static void forget(unimem *cpu, pw_fork *fork)
{
    pthread_join(fork->server, NULL);
    pw_fork **at = &cpu->forks;
    while (*at != fork) at = &(*at)->next;
    *at = fork->next;
    pw_thread_destroy(fork->thread);
    free(fork);
}

void pw_forks_stop(unimem *cpu)
{
    pw_node_lock(pw_door_node(cpu->node));
    for (pw_fork *each = cpu->forks; each; each = each->next) {
        each->thread->is_stopped = true;
        if (each->program) pw_program_kill(each->program);
    }
    pw_node_unlock(pw_door_node(cpu->node));
    while (cpu->forks) forget(cpu, cpu->forks);
}

int unimem_wait_forks(unimem *memory)
{
    pw_door_wait wait = pw_thread_wait(memory);
    int code = PW_OK;
    pw_door_enter(memory->node);
    while (memory->forks) {
        pw_fork *oldest = memory->forks;
        while (oldest->next) oldest = oldest->next;
        while (!oldest->is_over) {
            int moved = pw_door_step(memory->node, &wait);
            if (moved >= 0 && pw_door_is_late(&wait))
                moved = pw_door_fail(memory->node, PW_ERR_UNRECOVERABLE,
                                     "%.120s has not ended within %lld ms of wall time",
                                     oldest->file, (long long)(wait.limit_ns / 1000000));
            if (moved < 0) return pw_door_leave(memory->node, moved);
        }
        if (oldest->failure[0] && code == PW_OK)
            code = pw_door_fail(memory->node, PW_ERR_UNRECOVERABLE, "%s", oldest->failure);
        pw_clock *clock = pw_node_clock(pw_door_node(memory->node));
        clock->now_ns = pw_later(clock->now_ns, oldest->thread->now_ns);
        forget(memory, oldest);
    }
    return pw_door_leave(memory->node, code);
}
