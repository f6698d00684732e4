/* What stands behind the handle of unimem.h: a thread of a node that asks atomic services. The
 * first one is the node's CPU, and has the node's Unimem, whose frames go over the node's wire and
 * whose atomic service, with a core of its own, serves a request as soon as it is here. Others,
 * which remote forks have started, have a core and a clock of their own. Also what a host in Python
 * needs besides unimem.h. */
#ifndef PW_UNIMEM_DOOR_H
#define PW_UNIMEM_DOOR_H
#include "include/unimem.h"
#include "node/door/door.h"
#include "node/sentence.h"
#include "unimem/dma.h"
#include "unimem/program.h"
#include "unimem/unimem.h"

typedef struct pw_fork pw_fork;

/* The other side of a program's link: see program.h. */
typedef struct {
    pw_program_link *link; /* NULL: this is a thread of a node of this process */
    pw_program_facts facts;
    uint8_t page[PW_PAGE_BYTES]; /* of the last read of 4 KB */
    pw_sentence reason;
} pw_program_side;

struct unimem {
    pagewire_node *node; /* NULL: in another process, see `program` */
    pw_unimem *unimem;   /* this and the next one are the node's */
    unim_dma *dma;
    uint32_t interface; /* of the thread */
    unimem *cpu;        /* the thread that is the node's CPU */
    int64_t now_ns;     /* of the others */
    bool is_stopped;    /* it waits for no answer any more */
    pw_fork *forks;     /* of the node's CPU: programs started here, the newest first */
    unimem_options options;
    pw_program_side program;
};

/* cdef begin */
/* A thread that a remote fork starts, whose clock begins at start_ns; called in
 * unimem_options.spawn. */
int pw_thread_create(unimem *cpu, int64_t start_ns, unimem **out);
/* It asks no more; its clock stays. */
void pw_thread_close(unimem *thread);
void pw_thread_destroy(unimem *thread);
pw_unimem *pw_thread_unimem(const unimem *thread);
uint32_t pw_thread_interface(const unimem *thread);
/* Ask the owner's service for an operation, PW_UNIMEM_ALLOC and so on. 1: *answer is here; 0: it
 * is not in the wall time that there is; or a code. The thread has a new interface then. */
int pw_thread_ask(unimem *thread, uint32_t owner, uint8_t opcode, uint64_t address,
                  uint64_t argument1, uint64_t argument2, pw_unimem_answer *answer);
int64_t pw_thread_now_ns(unimem *thread);
/* Its clock goes on, and is not before until_ns. */
void pw_thread_spend(unimem *thread, int64_t duration_ns, int64_t until_ns);
/* It sees what was there at at_ns. */
void pw_thread_completed(unimem *thread, int64_t at_ns);
/* Take what is here, and send what processes have written to their devices. */
int pw_thread_send_written(unimem *thread);
/* unimem_options.wall_limit_ns, of all threads of the node. */
void pw_thread_set_wall_limit(unimem *thread, int64_t wall_limit_ns);
/* cdef end */

/* The wait that a thread begins. */
pw_door_wait pw_thread_wait(const unimem *thread);
#endif
