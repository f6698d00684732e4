/* The parts of a program: program.c takes its records one after the other, the other files
 * program_*.c do what a record says. Private to these files. */
#ifndef PW_REPLAY_PROGRAM_PARTS_H
#define PW_REPLAY_PROGRAM_PARTS_H
#include "native/frames.h"
#include "native/peers.h"
#include "replay/program.h"
#include "replay/program_tables.h"

#define PW_PROGRAM_TIME_MAX_NS (PW_FRAME_TIME_MAX / 4) /* 18 years: sums stay in range */
#define PW_PROGRAM_ADDRESS_END (UINT64_C(1) << 63)     /* of all that a trace may name */

typedef struct {
    uint64_t region, base;
} pw_region_base;

struct pw_program {
    pw_node *node;
    pw_clock *clock;
    pw_messages messages;
    pw_reader ops, matches, times, keys, rooms;
    pw_turns turns;
    pw_touches touches;
    bool matches_freely, verifies, is_cut, yields;
    uint32_t waits;         /* PW_PROGRAM_* */
    pw_record wanted;       /* at which it waits */
    pw_numbered *operation; /* for which it waits */
    pw_numbers numbers;
    uint64_t num_operations, num_told, num_atomics, num_registrations;
    pw_registered registered;
    uint64_t known_keys[PW_KEYS_KNOWN]; /* as recorded, by their numbers: a ring */
    uint64_t num_keys;
    uint64_t (*key_of)(void *context, uint32_t peer, const pw_program_wish *wish);
    int (*tell_registered)(void *context, uint32_t node, const pw_registration *made, bool is_gone);
    void *context;
    pw_operation_list in_order; /* matched, and one of their source before them may not be over */
    pw_peers in_order_of;       /* of each peer, when the last of these was over */
    pw_operation_list exposed;  /* sends of this call that were eager when recorded, by companion */
    pw_region_base *bases;
    uint32_t num_bases, bases_capacity;
    int32_t *calls; /* by the index of a name: that of the call, or a code */
    uint32_t num_names, names_capacity;
    uint64_t num_calls, num_lost;
    char lost[PW_CALL_NAME_BYTES];
    uint64_t recorded_ns; /* the last recorded time; sums wrap around in a malformed trace */
    pw_program_difference difference;
    pw_sentence reason;
};

/* ---- program.c: what is wrong */

/* Of the MPI call; empty: there was none yet. */
const char *pw_program_call_name(const pw_program *program);
/* Begin the reason with where the program is. */
void pw_program_name_record(pw_program *program);
/* PW_ERR_MALFORMED: the record makes no sense. */
__attribute__((format(printf, 2, 3))) int pw_program_refuse(pw_program *program, const char *format,
                                                            ...);
/* The code of a call of the node's, of which it has said why. */
int pw_program_of_node(pw_program *program, int code);

/* ---- program_memory.c */

int pw_program_read_bases(pw_program *program, pw_reader *reader);
/* Of a record's buffer, and of the peer's memory that it names; or PW_ERR_MALFORMED. */
int pw_program_address(pw_program *program, const pw_record *record, uint64_t *out);
int pw_program_remote_address(pw_program *program, const pw_record *record, uint64_t *out);
/* The memory of a receive of the message's length, as the trace has it. */
int pw_program_read_room(pw_program *program, pw_numbered *receive);
/* A message has come for it: its pages are as they were. */
int pw_program_make_room(pw_program *program, const pw_numbered *receive);
/* The CPU copies something there, which costs no time: the kernel brings the pages. */
int pw_program_touch(pw_program *program, uint64_t address, uint64_t num_bytes);

/* ---- program_time.c */

/* On to the next page that is touched in the compute interval which is under way. */
int pw_program_touch_next(pw_program *program);
/* There are no more records. */
void pw_program_drain(pw_program *program);

/* ---- program_messages.c */

int pw_program_check_peer(pw_program *program, uint64_t peer, uint64_t source);
int pw_program_new_operation(pw_program *program, pw_numbered **out);
/* It has a number now. */
int pw_program_number(pw_program *program, pw_numbered *operation);
/* What the node and the message layer tell; the context is the program. */
int pw_program_message_arrived(void *context, uint32_t source, const uint8_t *frame,
                               uint32_t frame_bytes);
int pw_program_handle_finished(void *context, pw_handle *handle);
pw_operation *pw_program_matched(void *context, pw_operation *receive, uint64_t message_bytes);
int pw_program_operation_over(void *context, pw_operation *operation);

/* ---- program_one_sided.c: a peer's atomic operation, and the answer to one of this program's */

int pw_program_serve_atomic(pw_program *program, const pw_arrival *arrival);
int pw_program_take_answer(pw_messages *messages, const pw_arrival *arrival);

/* ---- program_seen.c: where the node leaves a detailed trace */

/* The program is about to use a record's buffer. */
void pw_program_tell_buffer(const pw_program *program, const pw_record *record);
/* The operation is over. */
void pw_program_tell_operation(pw_program *program, pw_numbered *operation);
/* The CPU learns of it, which may be over later than now. */
void pw_program_tell_wait(pw_program *program, pw_numbered *operation, int64_t until_ns);
void pw_program_tell_meeting(const pw_program *program, int64_t until_ns);

/* ---- what records say: PW_OK, maybe with program->waits, or a code */

typedef int pw_perform(pw_program *program, const pw_record *record);

/* program_time.c */
pw_perform pw_perform_name, pw_perform_enter, pw_perform_leave, pw_perform_pass, pw_perform_read;
pw_perform pw_perform_meet, pw_perform_end, pw_perform_region, pw_perform_left, pw_perform_lost;
/* program_memory.c */
pw_perform pw_perform_pages, pw_perform_unmap, pw_perform_fork;
/* program_messages.c */
pw_perform pw_perform_send, pw_perform_receive, pw_perform_await, pw_perform_await_message;
pw_perform pw_perform_take, pw_perform_cancel;
/* program_one_sided.c */
pw_perform pw_perform_register, pw_perform_deregister, pw_perform_transfer, pw_perform_atomic;
#endif
