/* The R5's firmware: channels, blocks, classes, timeouts, the life of a block.
 *
 * Firmware of the R5: virtual channels, segmentation, scheduling, window, acknowledgements,
 * timeouts, reads served as writes [R5 2.3.3, 3, 4]. A state machine in virtual time: events come
 * from the engine's queue, what the hardware shall do goes out as actions. Knows nothing of frames,
 * memory or translation. The mailbox of new transfers has no depth: it holds one entry a channel at
 * most. See docs/firmware.md. Not thread-safe. */
#ifndef PW_R5SCHED_FIRMWARE_H
#define PW_R5SCHED_FIRMWARE_H
#include "native/event_queue.h"
#include "native/calendar.h"
#include "native/costs.h"
#include "native/counters.h"
#include "native/pool.h"
#include "native/settings.h"
#include "native/receiver.h"
#include "native/tallies.h"
#include "native/trace.h"
#include "r5sched/descriptor.h"
#include "r5sched/round_trips.h"
#include "r5sched/scheduler.h"
#include "r5sched/transactions.h"

typedef struct {
    pw_link link;
    pw_event event;
} pw_mailbox_entry;

/* A mailbox of the R5: entries leave in the order they came. An entry that finds it full waits
 * before it, in order, and loses nothing (flow control of the links). Only entries that cannot be
 * taken out at once are kept here; of the others it is known when the R5 took them. */
typedef struct {
    pw_time *taken_ns; /* ring of depth, as far as it is used: when the last entries were taken */
    uint32_t depth, next_taken, num_taken, taken_capacity;
    pw_queue waiting; /* of pw_mailbox_entry */
    pw_pool entries;
    uint32_t num_waiting;
    bool blocked; /* the head cannot be taken out */
    bool pumping; /* an event that looks at the head again is in the queue */
} pw_mailbox;

static inline const pw_event *pw_mailbox_head(const pw_mailbox *mailbox)
{
    return &((const pw_mailbox_entry *)mailbox->waiting.first)->event;
}

#define PW_NO_PEER UINT32_MAX

/* What the engine and the firmware know of the transfer on a channel. */
typedef struct {
    uint64_t source_address, destination_address, num_bytes;
    uint64_t cookie; /* the host's: its id of a write, key of the region of a served read */
    uint64_t key;    /* of a write: of its destination; 0: none */
    uint32_t peer, stream;
    uint16_t pdid;
    bool active, notified, queued;
    bool open;                /* counted in the scheduler: it has blocks to issue */
    bool lookahead_off;       /* a foreseen answer was wrong: wait for each from now on */
    bool paused;              /* its receiver is not ready */
    bool awaits_confirmation; /* done at done_ns but for answers that are not physically here */
    pw_time done_ns;
    pw_time in_order_ns; /* its next block goes to the link then or later, where that is in order */
    pw_time finished_ns; /* when the user may see that it is over */
    uint32_t num_unconfirmed;
    uint8_t hint;          /* PW_HINT_*; none: the class is by size */
    uint8_t window_blocks; /* 0 when triggered: the setting */
    uint8_t queue;         /* enum pw_class */
    uint8_t error;         /* NACK code that ended it, 0 while fine */
    uint32_t first_block_bytes, num_blocks, next_block, outstanding, num_acked;
    pw_notification notification;
} pw_transfer;

/* What stands in the scratchpad page of a channel, and of its transfer. */
typedef struct {
    pw_transfer transfer;
    pw_descriptor descriptor;
    uint8_t user_state; /* not 0: a user has the channel, which is not claimed for others'
                         * transfers; the rest is who opens them to know */
} pw_virtual_channel;

typedef struct {
    pw_transfer transfer; /* to be, without what a channel gives it */
    int32_t next;         /* FCFS buffer / free list */
} pw_read_request;

enum pw_action_kind {
    PW_ACTION_START_BLOCK, /* transaction: translate, cut in packets, send */
    PW_ACTION_NOTIFY,      /* channel: completion notification to the destination */
    PW_ACTION_DONE,        /* channel: every block acknowledged; the channel is free again; unless
                              it was notified, the destination is now */
    PW_ACTION_FAILED       /* channel: code; the channel is free again */
};

typedef struct {
    enum pw_action_kind kind;
    uint32_t channel;
    uint32_t code;
    pw_transaction *transaction;
    pw_time at_ns;
    pw_transfer transfer; /* DONE, FAILED: copy, since the channel may be reused */
} pw_action;

/* Zero: none. */
typedef struct {
    pw_action *list;
    uint32_t num_actions, capacity;
    pw_action lost; /* written to without memory for one more */
    bool is_short;  /* which has happened: nothing may go on */
} pw_actions;
void pw_actions_finish(pw_actions *actions);

/* Error code of a transfer beside the NACK codes. */
#define PW_UNRECOVERABLE 6

enum pw_event_kind {
    PW_EVENT_NEW_TRANSFER, /* subject: channel */
    PW_EVENT_DUPLICATE,    /* of a transfer noticed through the word, in the mailbox */
    PW_EVENT_READ_REQUEST, /* subject: index in reads */
    PW_EVENT_READ_HANDED,  /* subject: index in reads, detail: the channel it got */
    PW_EVENT_READ_RETRY,
    PW_EVENT_MAILBOX, /* subject: enum pw_mailbox_idx; look at the head again */
    PW_EVENT_TICK,
    PW_EVENT_SCHEDULE,
    PW_EVENT_ACK, /* subject: pw_answer_subject; detail: stream << 32 | block */
    PW_EVENT_NACK,
    PW_EVENT_ERR,
    PW_EVENT_TIMEOUT,
    PW_EVENT_CONFIRMED,  /* subject: channel; the last foreseen answer is here */
    PW_EVENT_PAUSE_OVER, /* subject: channel; detail: stream */
    PW_EVENT_HOPELESS,   /* nothing configured can bring the block through */
    /* The engine's own, never the firmware's: */
    PW_EVENT_SOURCE_FAULT, /* a read meets an absent page */
    PW_EVENT_BLOCK_DUE,    /* subject: transaction id; ZDMA: the block's first packet may leave */
    PW_EVENT_DEPARTURE     /* a frame that the network keeps leaves */
};

/* Acknowledgements, and read requests when these share it; else the second is theirs. */
enum pw_mailbox_idx { PW_MAILBOX_ANSWERS, PW_MAILBOX_REQUESTS, PW_NUM_MAILBOXES };

/* An answer to a block, as it came to this node. */
typedef struct {
    enum pw_event_kind kind;
    uint16_t transaction_id, sequence;
    uint32_t code;     /* of a NACK */
    uint64_t identity; /* stream << 32 | block */
    uint32_t peer;     /* who answers */
    bool is_behind;    /* NO_ANSWER: a block before this one brings it again */
    bool err_follows;  /* not before err_ns; else no further answer to this attempt can come */
    pw_time err_ns;
    pw_time sent_ns; /* until when flow control kept the block in this NI; INT64_MIN: it does not
                        tell */
    pw_time at_ns;
} pw_answer;

typedef struct {
    const pw_costs *costs;
    const pw_settings *settings;
    const pw_receiver_rules *receiver; /* what the other end does with a block */
    pw_counters *counters;
    pw_tallies *tallies;
    pw_event_queue *events;
    pw_trace *trace;
    /* Of the way to a peer, told by the owner [R5 4.2, 4.4]. */
    pw_unloaded (*unloaded)(void *owner, uint32_t peer);
    void *owner;
    pw_peers round_trips;    /* of pw_round_trips, where settings ask for them */
    pw_calendar own_r5, *r5; /* the latter of one firmware of the node */
    pw_scheduler scheduler;
    pw_transactions transactions;
    /* Channels that were claimed once, of the scratchpad pages that are taken. */
    pw_virtual_channel **pages[PW_CHANNEL_PAGES];
    uint16_t page_pdid[PW_CHANNEL_PAGES]; /* 0: scratchpad page not taken */
    uint32_t next_stream;
    bool is_in_order;      /* see pw_ni_set_in_order */
    bool lookahead_full;   /* as many answers foreseen as may be: wait until half are here */
    uint32_t num_active;   /* transfers on channels */
    uint32_t num_deferred; /* transfers that wait for a higher class (strict priority) */
    uint32_t num_stalled;  /* transfers put back because the table was full */
    pw_time word_free_ns;  /* the special scratchpad word was read */
    bool duplicate_waits;  /* what was in it is still in the mailbox */
    pw_mailbox mailboxes[PW_NUM_MAILBOXES];
    bool pumping, ticking, retrying; /* the last two: such an event is in the queue */
    uint32_t num_buffered;           /* in the FCFS buffer */
    bool lost_entry; /* the host had no memory for a mailbox entry: nothing may go on */
    pw_read_request *reads;
    uint32_t reads_capacity;
    int32_t free_read, first_waiting, last_waiting;
} pw_firmware;

/* NULL: it was never claimed. */
static inline pw_virtual_channel *pw_firmware_channel(const pw_firmware *firmware, uint32_t channel)
{
    pw_virtual_channel *const *page = firmware->pages[channel / PW_CHANNELS_PER_PAGE];
    return page ? page[channel % PW_CHANNELS_PER_PAGE] : NULL;
}
/* The transfer on a channel that was claimed. */
static inline pw_transfer *pw_transfer_on(const pw_firmware *firmware, uint32_t channel)
{
    return &pw_firmware_channel(firmware, channel)->transfer;
}
/* Channels with a transfer. */
uint32_t pw_firmware_num_busy(const pw_firmware *firmware);
/* Descriptor of a channel, claimed or not. */
pw_descriptor pw_firmware_descriptor(const pw_firmware *firmware, uint32_t channel);

int pw_firmware_init(pw_firmware *firmware, const pw_costs *costs, const pw_settings *settings,
                     const pw_receiver_rules *receiver, pw_counters *counters, pw_tallies *tallies,
                     pw_event_queue *events, pw_trace *trace);
void pw_firmware_destroy(pw_firmware *firmware);
/* Both are of one R5: its time goes to whichever asks first. `with` must live as long. */
void pw_firmware_share(pw_firmware *firmware, const pw_firmware *with);
/* Of a block for the peer; negative: none. */
int64_t pw_firmware_timeout_ns(pw_firmware *firmware, uint32_t peer);
/* When a block for the peer may leave that was ready at at_ns, as far as congestion goes. It has
 * so many bytes on the link. */
pw_time pw_firmware_pace(pw_firmware *firmware, uint32_t peer, uint64_t num_bytes, pw_time at_ns);
/* Take a scratchpad page for a protection domain: its index, PW_ERR_FULL or PW_ERR_NOMEM. */
int pw_firmware_open_page(pw_firmware *firmware, uint16_t pdid);
/* Is it of a write that can be done: some bytes, its notification aligned, hint and window such? */
bool pw_descriptor_is_valid(const pw_descriptor *descriptor);
/* What it says, without a stream. */
pw_transfer pw_transfer_of(const pw_descriptor *descriptor, uint32_t peer, uint16_t pdid);
/* Claim a free write channel of the domain's page: its index, PW_ERR_FULL, PW_ERR_CONTEXT or
 * PW_ERR_NOMEM. */
int pw_firmware_claim_write(pw_firmware *firmware, uint16_t pdid);
/* The id of a new write, by which source and destination know it. */
uint32_t pw_firmware_new_stream(pw_firmware *firmware);
/* The transfer on a claimed channel is triggered: its descriptor is in the scratchpad at at_ns.
 * transfer: zero but for what is asked for. */
void pw_firmware_trigger(pw_firmware *firmware, uint32_t channel, const pw_transfer *transfer,
                         pw_time at_ns);
/* A read request stands in the mailbox at at_ns. PW_ERR_NOMEM when it cannot be kept. */
int pw_firmware_read_request(pw_firmware *firmware, const pw_transfer *request, pw_time at_ns);
/* An answer is physically here. Decides whether the block's timeout comes first. */
void pw_firmware_answer(pw_firmware *firmware, const pw_answer *answer);
/* The attempt has its last answer: no ERR of it is waited for any more, should a timeout have
 * overtaken it. */
void pw_firmware_settle_overtaken(pw_firmware *firmware, const pw_answer *answer);
/* An ERR is to come for the attempt, not before answer->err_ns. */
void pw_firmware_err_later(pw_firmware *firmware, const pw_answer *answer);
/* None of the ERRs that are to come for blocks of the stream to peer comes before err_ns. */
void pw_firmware_errs_later(pw_firmware *firmware, uint32_t peer, uint32_t stream, pw_time err_ns);
/* May the answer to a block of this channel be foreseen? Only for a transfer alone on this node. */
bool pw_firmware_may_predict(const pw_firmware *firmware, uint32_t channel);
/* Has it nothing to do, and waits for nothing? *from_ns: when what it has done is over. */
bool pw_firmware_is_at_rest(const pw_firmware *firmware, pw_time *from_ns);
/* The block's ACK will arrive at at_ns: go on as if it were here. The entry stays until it is; if
 * another answer comes, the block is pending again. */
void pw_firmware_predict(pw_firmware *firmware, pw_transaction *transaction, pw_time at_ns);
/* No (further) answer will come for this attempt; at_ns: when the last one was, or the block was
 * sent. The timeout is the only help left; without one the transfer fails with PW_UNRECOVERABLE. */
void pw_firmware_no_answer(pw_firmware *firmware, const pw_answer *answer);
/* The network has taken late_ns longer for the attempt's block than was known when it left; its
 * answer comes at attempt->at_ns or later. */
void pw_firmware_passed(pw_firmware *firmware, const pw_answer *attempt, pw_time late_ns);
/* A further answer to an attempt, which has answers of its own: the network made a copy of the
 * block. */
void pw_firmware_extra_answer(pw_firmware *firmware, const pw_answer *answer);
/* When the timer of a block runs out that is being sent until sending_until_ns. */
pw_time pw_firmware_deadline(pw_firmware *firmware, const pw_transaction *transaction);
/* An injected fault makes the attempt vain. After as many such attempts as there are sequence
 * numbers the block's transfer fails. */
void pw_firmware_spoiled(pw_firmware *firmware, const pw_answer *answer);
/* End a transfer with an error code. Its pending blocks are forgotten: answers to them find no
 * entry. */
void pw_firmware_fail(pw_firmware *firmware, uint32_t channel, uint32_t code, pw_actions *actions,
                      pw_time at_ns);
/* Handle one event; appends to actions (which the caller cleared). */
void pw_firmware_handle(pw_firmware *firmware, const pw_event *event, pw_actions *actions);

/* A read request that cannot be taken out keeps acknowledgements from being read, which alone could
 * make room for it. */
bool pw_firmware_is_deadlocked(const pw_firmware *firmware);
/* Does the domain have a scratchpad page here? */
bool pw_firmware_has_page(const pw_firmware *firmware, uint16_t pdid);

/* Of no block: a transfer has fewer. */
#define PW_NO_IDENTITY UINT64_MAX
static inline uint64_t pw_identity(uint32_t stream, uint32_t block_idx)
{
    return (uint64_t)stream << 32 | block_idx;
}

#endif
