/* Blocks and page faults of a run, put together from the records of all ranks, in their order.
 * A block is sent, and sent again under the next sequence number (its retransmission) until it is
 * acknowledged. A fault is a page that it met absent, at either end. Its lifeline is an arrow with
 * a number: from the packets that met the page, over NACK, tasklet, page-in and ERR, to the
 * retransmission that is delivered. In memory are the blocks on their way and their faults; nothing
 * is made up: what no record tells is no step. One thread at a time. */
#ifndef PW_RUN_TIMELINE_LIFELINES_H
#define PW_RUN_TIMELINE_LIFELINES_H
#include "run/timeline/lanes.h"

typedef struct pw_block_line pw_block_line;
typedef struct pw_fault_line pw_fault_line;

/* Of a rank. */
typedef struct {
    pw_lanes lanes;
    pw_block_line **blocks; /* of which it is the source, by transaction number */
    uint32_t num_blocks;
    pw_fault_line *first_fault, *last_fault; /* at this rank */
} pw_rank_line;

typedef struct {
    pw_timeline_file *file;
    pw_rank_line *ranks;
    uint32_t num_ranks;
    pw_flow *flows; /* those of the step at hand */
    uint32_t num_flows, flows_capacity;
    pw_fault_line *free_faults;
} pw_story;

/* What a record says of a block. */
typedef struct {
    uint32_t source, id, sequence;
} pw_block_name;

/* The block leaves its source, the first time or again. */
void pw_story_begin(pw_story *story, pw_block_name name, pw_time at_ns);
/* It is on the link, or in the receive engine of `rank`. */
void pw_story_link(pw_story *story, pw_block_name name, pw_time start_ns, pw_time end_ns,
                   const char *label);
void pw_story_receive(pw_story *story, pw_block_name name, uint32_t rank, pw_time start_ns,
                      pw_time end_ns, const char *label);
/* It met a page that is absent at `rank`, its source or its destination. */
void pw_story_fault(pw_story *story, pw_block_name name, uint32_t rank, bool at_destination,
                    uint64_t page, pw_time at_ns);
/* The source knows an answer; it may be the last one that tells of faults. */
void pw_story_answer(pw_story *story, pw_block_name name, pw_time at_ns, bool is_ack,
                     bool knows_faults);
/* The transaction's number is free. */
void pw_story_end(pw_story *story, pw_block_name name);

/* Steps: story->flows are then the arrows that pass there. */
void pw_story_step(pw_story *story, pw_block_name name, pw_time at_ns);
/* The same with the sequence number that came last to the destination. */
void pw_story_received_step(pw_story *story, pw_block_name name, pw_time at_ns);
/* The tasklet begins with a page; pages are there. reads_wait: attempts that met them at the source
 * have waited, and go on. */
void pw_story_tasklet(pw_story *story, uint32_t rank, uint64_t page, pw_time at_ns);
void pw_story_page_in(pw_story *story, uint32_t rank, uint64_t page, uint64_t num_pages,
                      pw_time at_ns, bool reads_wait);
void pw_story_resume(pw_story *story, uint32_t rank, uint64_t page, pw_time at_ns);

/* No more records: what is open ends where its last step was. */
void pw_story_finish(pw_story *story);
void pw_story_destroy(pw_story *story);
#endif
