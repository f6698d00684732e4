/* Records what a rank's program does, as pwt_format.h says: written beside the run, below both
 * fronts. It changes no virtual time, and no count but wall time. One a node; every function is
 * called with the node locked. A recorder that has failed records nothing more. */
#ifndef PW_NODE_RECORD_RECORDER_H
#define PW_NODE_RECORD_RECORDER_H
#include "native/memory.h"
#include "node/messages/messages.h"
#include "node/record/pwt_format.h"

typedef struct pw_recorder pw_recorder;

/* cdef begin */
/* Record from now on into a new file. eager_limit_bytes: of the messages. PW_ERR_HOST (errno),
 * PW_ERR_NOMEM. */
int pw_node_record_start(pw_node *node, const char *path, uint64_t eager_limit_bytes);
/* The program has ended: write what is left. PW_ERR_HOST (errno) when records are lost; PW_OK
 * without a recording. */
int pw_node_record_finish(pw_node *node);
/* The CPU's clock goes on to that of the latest of a group's members, who all come here. group: a
 * number that they alone have. */
void pw_node_clock_meet(pw_node *node, int64_t latest_ns, uint64_t group, uint32_t num_members);
/* Something that cannot be recorded is done. */
void pw_node_record_lost(pw_node *node, const char *what);
/* cdef end */

/* ---- the clock's; times are virtual */

/* An outermost call begins, behind so much compute. */
void pw_recorder_enter(pw_recorder *recorder, int64_t compute_ns, bool costs_call);
/* It ends at now_ns. */
void pw_recorder_leave(pw_recorder *recorder, int64_t now_ns);
/* It is a look in vain: it took in_call_ns, of which poll_ns for the look. */
void pw_recorder_looked(pw_recorder *recorder, int64_t in_call_ns, int64_t poll_ns);
/* It is a test in vain that costs nothing: the clock went back by back_ns, so that the call took
 * in_call_ns: less than nothing where the compute before it went, too. */
void pw_recorder_excused(pw_recorder *recorder, int64_t in_call_ns, int64_t back_ns);
/* The clock was read; outside of a call so much compute has passed before. */
void pw_recorder_read(pw_recorder *recorder, int64_t compute_ns);
void pw_recorder_slept(pw_recorder *recorder, int64_t duration_ns);
/* The CPU works within a call. */
void pw_recorder_passed(pw_recorder *recorder, int64_t duration_ns);
/* The CPU, whose clock was at now_ns, learns by a look of an operation that was over at
 * complete_ns. */
void pw_recorder_completed(pw_recorder *recorder, int64_t now_ns, int64_t complete_ns,
                           int64_t poll_ns);
/* The clocks of a group's members go on to the latest of them. */
void pw_recorder_met(pw_recorder *recorder, uint64_t group, uint32_t num_members);

/* ---- the messages' */

/* Before the buffer is used. The operation, NULL for one that rides along, is numbered. */
void pw_recorder_sent(pw_recorder *recorder, pw_operation *send, uint32_t peer,
                      const pw_message_header *header, pw_span span);
void pw_recorder_posted(pw_recorder *recorder, pw_operation *receive);
/* A receive takes the message of this peer and source. */
void pw_recorder_matched(pw_recorder *recorder, pw_operation *receive, uint32_t peer,
                         uint32_t source);
/* Memory was made for a receive of the message's length, before the strategy has it. */
void pw_recorder_made_room(pw_recorder *recorder, pw_operation *receive, pw_span span);
/* The NI or the CPU has written these bytes, whose pages are there now. */
void pw_recorder_landed(pw_recorder *recorder, pw_span span);
/* Send or receive: over at its complete_ns. */
void pw_recorder_over(pw_recorder *recorder, const pw_operation *operation);
/* pw_messages_completed, pw_messages_told. */
void pw_recorder_done(pw_recorder *recorder, pw_operation *operation, const pw_operation *whole,
                      int64_t now_ns, int64_t poll_ns);
void pw_recorder_told(pw_recorder *recorder, pw_operation *operation, const pw_operation *whole);
/* The operation is freed. */
void pw_recorder_forget(pw_recorder *recorder, pw_operation *operation);
void pw_recorder_cancelled(pw_recorder *recorder, pw_operation *receive);
/* A probe tells of a message that came early; flags: PW_FOUND_*. */
void pw_recorder_found(pw_recorder *recorder, pw_operation *arrived, uint32_t flags);
/* The message is received. */
void pw_recorder_took(pw_recorder *recorder, const pw_operation *arrived, pw_operation *receive);

/* ---- one-sided operations */

/* Peers may use these bytes by a key; rights: PW_REGISTER_*. A number for the other call; 0: none.
 */
uint32_t pw_recorder_registered(pw_recorder *recorder, pw_span span, uint64_t key, uint32_t rights);
void pw_recorder_deregistered(pw_recorder *recorder, uint32_t number);
/* A read or write of a peer's memory, before the strategy has its buffer. */
void pw_recorder_transfer(pw_recorder *recorder, pw_operation *transfer);
/* An atomic operation on num_bytes of its peer's memory; bytes of both messages. */
void pw_recorder_atomic(pw_recorder *recorder, pw_operation *atomic, uint32_t request_bytes,
                        uint32_t answer_bytes);

/* ---- the node's turns */

/* A burst of this node is here. In what state has the program left the registered pages that it is
 * about? */
void pw_recorder_received(pw_recorder *recorder, const pw_wire_burst *burst, bool is_waiting);
/* The engine runs with it: up to now_ns, or while the CPU waits. */
void pw_recorder_turns(pw_recorder *recorder, bool is_waiting, int64_t now_ns);

/* ---- memory */

/* The NI is about to use these bytes: in what state has the program left their pages? */
void pw_recorder_uses(pw_recorder *recorder, pw_span span);
/* The NI has run, or the strategy has prepared a buffer: what came meanwhile, they have brought. */
void pw_recorder_brought(pw_recorder *recorder);
/* The program gave pages back. */
void pw_recorder_unmapped(pw_recorder *recorder, uint64_t first_page, uint64_t num_pages);
void pw_recorder_forked(pw_recorder *recorder);

void pw_recorder_region_entered(pw_recorder *recorder, const char *name, size_t num_bytes);
void pw_recorder_region_left(pw_recorder *recorder);

#endif
