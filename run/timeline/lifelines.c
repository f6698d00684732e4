#include "run/timeline/lifelines.h"
#include "native/array.h"
#include <inttypes.h>
#include <stdlib.h>

#define FIRST_BLOCKS 64
#define BLOCKS_MAX 65536 /* a transaction's number has 16 bits in a record */

struct pw_fault_line {
    pw_fault_line *next_of_block, *next_of_rank, *before_of_rank;
    pw_block_line *block;
    pw_track_lane *lane;
    uint64_t flow, page;
    uint32_t rank, sequence;
    pw_time found_ns, end_ns; /* of its last step */
    bool has_tasklet;
    bool at_destination;
    bool is_absent;  /* its page */
    bool has_waited; /* this attempt waited for the page, and went on */
    bool counts;     /* the first of those that wait for their page at the rank */
    bool is_told;    /* in the file: its lifeline has ended */
};

/* A block by the number of its transaction, the present one or the last one. */
struct pw_block_line {
    uint32_t source, id;
    uint32_t sequence, received_sequence;
    bool has_ended;
    bool is_acked;
    bool is_answered;        /* the faults of this attempt are known */
    bool is_received;        /* this attempt */
    pw_span *link, *receive; /* of this attempt, which wait for its faults */
    pw_fault_line *faults;
};

/* --- objects -------------------------------------------------------------------------------------
 */

static pw_block_line *block_of(pw_story *story, pw_block_name name)
{
    if (name.source >= story->num_ranks || name.id >= BLOCKS_MAX) return NULL;
    pw_rank_line *rank = &story->ranks[name.source];
    if (name.id >= rank->num_blocks) {
        uint32_t num_blocks = rank->num_blocks ? rank->num_blocks : FIRST_BLOCKS;
        while (num_blocks <= name.id) num_blocks *= 2;
        pw_block_line **bigger = realloc(rank->blocks, num_blocks * sizeof(pw_block_line *));
        if (!bigger) {
            story->file->failed = PW_ERR_NOMEM;
            return NULL;
        }
        for (uint32_t i = rank->num_blocks; i < num_blocks; i++) bigger[i] = NULL;
        rank->blocks = bigger;
        rank->num_blocks = num_blocks;
    }
    pw_block_line *block = rank->blocks[name.id];
    if (block) return block;
    block = rank->blocks[name.id] = calloc(1, sizeof *block);
    if (!block) {
        story->file->failed = PW_ERR_NOMEM;
        return NULL;
    }
    block->source = name.source;
    block->id = name.id;
    block->has_ended = true;
    return block;
}

static void add_flow(pw_story *story, uint64_t number, bool is_last)
{
    if (PW_ARRAY_MAKE_ROOM(story->flows, story->num_flows, story->flows_capacity, 16) < 0)
        story->file->failed = PW_ERR_NOMEM;
    else story->flows[story->num_flows++] = (pw_flow){number, is_last};
}

/* The fault's lifeline passes the step at hand. */
static void pass(pw_story *story, pw_fault_line *fault, pw_time at_ns)
{
    if (fault->is_told) return;
    fault->end_ns = pw_later(fault->end_ns, at_ns);
    add_flow(story, fault->flow, false);
}

static void pass_attempt(pw_story *story, const pw_block_line *block, uint32_t sequence,
                         pw_time at_ns)
{
    for (pw_fault_line *fault = block->faults; fault; fault = fault->next_of_block)
        if (fault->sequence == sequence) pass(story, fault, at_ns);
}

/* --- a fault's end -------------------------------------------------------------------------------
 */

static void tell(pw_story *story, pw_fault_line *fault)
{
    if (fault->is_told) return;
    fault->is_told = true;
    if (!fault->lane) return;
    const pw_block_line *block = fault->block;
    const pw_name name =
        fault->at_destination
            ? pw_name_of("page 0x%" PRIx64 ": block %u of rank %u", fault->page, block->id,
                         block->source)
            : pw_name_of("page 0x%" PRIx64 ": block %u at the source", fault->page, block->id);
    const pw_flow flow = {fault->flow, false};
    pw_track_lane_end(&story->ranks[fault->rank].lanes, fault->lane, fault->found_ns, fault->end_ns,
                      name.text, &flow, 1);
}

/* One that is told and whose page is there is forgotten. */
static void forget(pw_story *story, pw_fault_line *fault)
{
    if (!fault->is_told || fault->is_absent) return;
    pw_fault_line **at = &fault->block->faults;
    while (*at != fault) at = &(*at)->next_of_block;
    *at = fault->next_of_block;
    pw_rank_line *rank = &story->ranks[fault->rank];
    *(fault->before_of_rank ? &fault->before_of_rank->next_of_rank : &rank->first_fault) =
        fault->next_of_rank;
    *(fault->next_of_rank ? &fault->next_of_rank->before_of_rank : &rank->last_fault) =
        fault->before_of_rank;
    fault->next_of_block = story->free_faults;
    story->free_faults = fault;
    pw_timeline_hold(story->file, -1);
}

/* The fault waits for its page no longer. Another one may, and then counts in its place. */
static void leave_absent(pw_rank_line *rank, pw_fault_line *fault, pw_time at_ns)
{
    fault->is_absent = false;
    if (!fault->counts) return;
    for (pw_fault_line *each = rank->first_fault; each; each = each->next_of_rank)
        if (each->is_absent && each->page == fault->page) {
            each->counts = true;
            return;
        }
    pw_lanes_add(&rank->lanes, PW_TRACK_ABSENT, at_ns, -1);
}

static void settle(pw_story *story, pw_block_line *block)
{
    for (pw_fault_line *fault = block->faults, *next; fault; fault = next) {
        next = fault->next_of_block;
        tell(story, fault);
        if (fault->is_absent) leave_absent(&story->ranks[fault->rank], fault, fault->end_ns);
        forget(story, fault);
    }
}

/* --- a block -------------------------------------------------------------------------------------
 */

/* The faults of this attempt are known: what waits for them gets its arrows. */
static void know_faults(pw_story *story, pw_block_line *block)
{
    block->is_answered = true;
    pw_span *spans[] = {block->link, block->receive};
    bool is_arrow = spans[0] && spans[1];
    uint64_t number = is_arrow ? pw_timeline_flow(story->file) : 0;
    block->link = block->receive = NULL;
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
        if (!spans[i]) continue;
        if (is_arrow) pw_span_add_flow(story->file, spans[i], (pw_flow){number, i == 1});
        for (const pw_fault_line *fault = block->faults; fault; fault = fault->next_of_block)
            if (fault->sequence == block->sequence && !fault->has_waited)
                pw_span_add_flow(story->file, spans[i], (pw_flow){fault->flow, false});
        pw_span_ready(story->file, spans[i]);
    }
}

void pw_story_begin(pw_story *story, pw_block_name name, pw_time at_ns)
{
    pw_block_line *block = block_of(story, name);
    if (!block) return;
    know_faults(story, block);
    if (block->has_ended) {
        settle(story, block);
        pw_lanes_add(&story->ranks[name.source].lanes, PW_TRACK_OUTSTANDING, at_ns, 1);
    }
    block->sequence = name.sequence;
    block->has_ended = block->is_acked = block->is_answered = block->is_received = false;
}

/* An earlier attempt's fault goes on in this one, and one that the attempt has waited for. */
static bool goes_on(const pw_block_line *block, const pw_fault_line *fault)
{
    return !fault->is_told && (fault->sequence != block->sequence || fault->has_waited);
}

/* The lifelines that go on in this attempt. is_last: and end there, when the page is there by now.
 */
static void take_earlier(pw_story *story, pw_block_line *block, pw_time at_ns, bool is_last)
{
    story->num_flows = 0;
    for (pw_fault_line *fault = block->faults; fault; fault = fault->next_of_block) {
        if (!goes_on(block, fault)) continue;
        fault->end_ns = pw_later(fault->end_ns, at_ns);
        add_flow(story, fault->flow, is_last && !fault->is_absent);
    }
}

/* A span of this attempt; it waits while the attempt's faults are not known. */
static pw_span *add_span(pw_story *story, const pw_block_line *block, pw_lanes *lanes,
                         enum pw_track track, pw_time start_ns, pw_time end_ns, const char *label)
{
    if (block->is_answered) {
        pw_lanes_span(lanes, track, start_ns, end_ns, label, story->flows, story->num_flows);
        return NULL;
    }
    pw_span *span = pw_lanes_begin(lanes, track, start_ns, end_ns, label);
    if (!span) return NULL;
    for (uint32_t i = 0; i < story->num_flows; i++)
        pw_span_add_flow(story->file, span, story->flows[i]);
    return span;
}

void pw_story_link(pw_story *story, pw_block_name name, pw_time start_ns, pw_time end_ns,
                   const char *label)
{
    pw_lanes *lanes = &story->ranks[name.source].lanes;
    pw_block_line *block = block_of(story, name);
    if (!block || block->has_ended || block->sequence != name.sequence || block->link) {
        pw_lanes_span(lanes, PW_TRACK_LINK, start_ns, end_ns, label, NULL, 0);
        return;
    }
    take_earlier(story, block, start_ns, false);
    block->link = add_span(story, block, lanes, PW_TRACK_LINK, start_ns, end_ns, label);
}

void pw_story_receive(pw_story *story, pw_block_name name, uint32_t rank, pw_time start_ns,
                      pw_time end_ns, const char *label)
{
    pw_lanes *lanes = &story->ranks[rank].lanes;
    pw_block_line *block = block_of(story, name);
    if (block) block->received_sequence = name.sequence;
    if (!block || block->has_ended || block->sequence != name.sequence || block->is_received) {
        pw_lanes_span(lanes, PW_TRACK_RECEIVE_ENGINE, start_ns, end_ns, label, NULL, 0);
        return;
    }
    block->is_received = true;
    take_earlier(story, block, start_ns, true);
    block->receive =
        add_span(story, block, lanes, PW_TRACK_RECEIVE_ENGINE, start_ns, end_ns, label);
    for (pw_fault_line *fault = block->faults, *next; fault; fault = next) {
        next = fault->next_of_block;
        if (!goes_on(block, fault) || fault->is_absent) continue;
        tell(story, fault);
        forget(story, fault);
    }
}

void pw_story_answer(pw_story *story, pw_block_name name, pw_time at_ns, bool is_ack,
                     bool knows_faults)
{
    pw_block_line *block = block_of(story, name);
    story->num_flows = 0;
    if (!block) return;
    pass_attempt(story, block, block->sequence, at_ns);
    if (knows_faults && !block->is_answered) know_faults(story, block);
    if (!is_ack || block->is_acked) return;
    block->is_acked = true;
    pw_lanes_add(&story->ranks[name.source].lanes, PW_TRACK_OUTSTANDING, at_ns, -1);
}

void pw_story_end(pw_story *story, pw_block_name name)
{
    pw_block_line *block = block_of(story, name);
    if (!block || block->has_ended) return;
    block->has_ended = true;
    know_faults(story, block);
    settle(story, block);
}

/* --- faults --------------------------------------------------------------------------------------
 */

static pw_fault_line *new_fault(pw_story *story)
{
    pw_fault_line *fault = story->free_faults;
    if (fault) story->free_faults = fault->next_of_block;
    else fault = malloc(sizeof *fault);
    if (!fault) story->file->failed = PW_ERR_NOMEM;
    else pw_timeline_hold(story->file, 1);
    return fault;
}

static void enter(pw_rank_line *rank, pw_fault_line *fault)
{
    fault->is_absent = fault->counts = true;
    for (const pw_fault_line *each = rank->first_fault; each; each = each->next_of_rank)
        if (each->is_absent && each->page == fault->page) fault->counts = false;
    fault->before_of_rank = rank->last_fault;
    *(rank->last_fault ? &rank->last_fault->next_of_rank : &rank->first_fault) = fault;
    rank->last_fault = fault;
    if (fault->counts) pw_lanes_add(&rank->lanes, PW_TRACK_ABSENT, fault->found_ns, 1);
}

void pw_story_fault(pw_story *story, pw_block_name name, uint32_t rank, bool at_destination,
                    uint64_t page, pw_time at_ns)
{
    pw_block_line *block = block_of(story, name);
    if (!block) return;
    uint32_t sequence = at_destination ? block->received_sequence : block->sequence;
    pw_fault_line **end = &block->faults;
    for (; *end; end = &(*end)->next_of_block)
        if (at_destination && (*end)->at_destination && (*end)->sequence == sequence &&
            (*end)->page == page)
            return; /* a further packet of the same page; the source's pages are others */
    pw_fault_line *fault = new_fault(story);
    if (!fault) return;
    pw_rank_line *of_rank = &story->ranks[rank];
    *fault = (pw_fault_line){.block = block,
                             .lane = pw_track_lane_take(&of_rank->lanes, PW_TRACK_FAULTS, at_ns),
                             .flow = pw_timeline_flow(story->file),
                             .page = page,
                             .rank = rank,
                             .sequence = sequence,
                             .at_destination = at_destination,
                             .found_ns = at_ns,
                             .end_ns = at_ns};
    *end = fault;
    enter(of_rank, fault);
}

/* --- steps ---------------------------------------------------------------------------------------
 */

void pw_story_step(pw_story *story, pw_block_name name, pw_time at_ns)
{
    const pw_block_line *block = block_of(story, name);
    story->num_flows = 0;
    if (block) pass_attempt(story, block, name.sequence, at_ns);
}

void pw_story_received_step(pw_story *story, pw_block_name name, pw_time at_ns)
{
    const pw_block_line *block = block_of(story, name);
    story->num_flows = 0;
    if (block) pass_attempt(story, block, block->received_sequence, at_ns);
}

void pw_story_tasklet(pw_story *story, uint32_t rank, uint64_t page, pw_time at_ns)
{
    story->num_flows = 0;
    for (pw_fault_line *fault = story->ranks[rank].first_fault; fault; fault = fault->next_of_rank)
        if (fault->is_absent && fault->page == page && !fault->has_tasklet) {
            fault->has_tasklet = true;
            pass(story, fault, at_ns);
        }
}

void pw_story_page_in(pw_story *story, uint32_t rank, uint64_t page, uint64_t num_pages,
                      pw_time at_ns, bool reads_wait)
{
    pw_rank_line *of_rank = &story->ranks[rank];
    story->num_flows = 0;
    for (pw_fault_line *fault = of_rank->first_fault, *next; fault; fault = next) {
        next = fault->next_of_rank;
        if (!fault->is_absent || fault->page - page >= num_pages) continue;
        pass(story, fault, at_ns);
        fault->has_waited = reads_wait && !fault->at_destination;
        leave_absent(of_rank, fault, at_ns);
        forget(story, fault);
    }
}

void pw_story_resume(pw_story *story, uint32_t rank, uint64_t page, pw_time at_ns)
{
    for (pw_fault_line *fault = story->ranks[rank].last_fault; fault; fault = fault->before_of_rank)
        if (fault->page == page) {
            fault->end_ns = pw_later(fault->end_ns, at_ns);
            return;
        }
}

/* --- ends ----------------------------------------------------------------------------------------
 */

void pw_story_finish(pw_story *story)
{
    for (uint32_t rank = 0; rank < story->num_ranks; rank++)
        for (uint32_t id = 0; id < story->ranks[rank].num_blocks; id++) {
            pw_block_line *block = story->ranks[rank].blocks[id];
            if (!block) continue;
            know_faults(story, block);
            settle(story, block);
        }
}

void pw_story_destroy(pw_story *story)
{
    for (uint32_t rank = 0; rank < story->num_ranks; rank++) {
        pw_rank_line *of_rank = &story->ranks[rank];
        for (uint32_t id = 0; id < of_rank->num_blocks; id++) {
            pw_block_line *block = of_rank->blocks[id];
            for (pw_fault_line *fault; block && (fault = block->faults);) {
                block->faults = fault->next_of_block;
                free(fault);
            }
            free(block);
        }
        free(of_rank->blocks);
        pw_lanes_destroy(&of_rank->lanes);
    }
    for (pw_fault_line *fault; (fault = story->free_faults);) {
        story->free_faults = fault->next_of_block;
        free(fault);
    }
    free(story->flows);
    free(story->ranks);
}
