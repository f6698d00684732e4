/* A program, an executable file, that a remote fork has started [D3.6 2.2.8, 2.3.5]: its process,
 * and the link by which it asks for operations on shared memory. The node's side has the process;
 * the program's side is behind unimem_forked.
 *
 * The program is a thread of the node that it runs on: a host's thread takes each request from the
 * link, asks for the operation in its place, and sends the answer. Standard output and error go to
 * `exec-x-stdout.log` in the folder of the node's process, x: the child's id (assumed; so is the
 * error's place). When the thread that has started it ends, the program is killed; when its node
 * has gone, its next operation fails. What it computes takes no virtual time. One thread at a time;
 * the program's side any number. */
#ifndef PW_UNIMEM_PROGRAM_H
#define PW_UNIMEM_PROGRAM_H
#include "unimem/atomic_service.h"

/* cdef begin */
typedef struct pw_program pw_program;

/* What a program is told first. */
typedef struct {
    uint64_t id, argument;
    uint32_t node, num_nodes;
} pw_program_facts;

typedef struct {
    uint64_t address, argument[2];
    uint32_t owner;
    uint32_t opcode; /* PW_UNIMEM_ALLOC and so on */
} pw_program_request;

typedef struct {
    uint64_t error, result;
    int32_t code; /* 1: answered; 0: not in the time that there is; or PW_ERR_* */
    uint32_t reserved;
} pw_program_answer;

/* Of a fork's name: 0, or why it cannot be started: UNIMEM_FORK_*. */
uint64_t pw_program_check(const char *file);
/* PW_ERR_HOST: see errno; PW_ERR_NOMEM. */
int pw_program_start(const char *file, const pw_program_facts *facts, pw_program **out);
/* 1: its next request, for which this waits; 0: it asks no more. */
int pw_program_next(pw_program *program, pw_program_request *out);
/* page: of a read of 4 KB. */
void pw_program_answer_it(pw_program *program, const pw_program_answer *answer,
                          const uint8_t *page);
/* Any thread: it is killed. */
void pw_program_kill(const pw_program *program);
/* Until it has ended. False: it died, and *text, the caller's 256 bytes, says of what. */
bool pw_program_end(pw_program *program, char *text);
/* cdef end */

/* ---- the program's side */

typedef struct pw_program_link pw_program_link;

/* PW_ERR_INVALID: no remote fork has started this process; PW_ERR_HOST, PW_ERR_NOMEM. */
int pw_program_link_create(pw_program_link **out, pw_program_facts *facts);
void pw_program_link_destroy(pw_program_link *link);
/* For who asks: until it has what it wants of the answer. */
void pw_program_link_lock(pw_program_link *link);
void pw_program_link_unlock(pw_program_link *link);
/* As the answer's code; PW_ERR_UNRECOVERABLE: the node has gone. page: PW_PAGE_BYTES, which a read
 * of 4 KB fills; NULL: thrown away. */
int pw_program_link_ask(pw_program_link *link, const pw_program_request *request,
                        pw_program_answer *out, uint8_t *page);
#endif
