/* Frame formats: what the NIs of two ranks say to each other. A burst is a run of frames, each
 * padded to 8 bytes. All integers are in host order (ranks of one run share an architecture; the
 * magic number shows when they do not). time_ns is the virtual time of arrival at the receiving NI.
 */
#ifndef PW_NATIVE_FRAMES_H
#define PW_NATIVE_FRAMES_H
#include "native/receiver.h"
#include "native/types.h"

#define PW_FRAME_MAGIC 0x5057
#define PW_FRAME_TIME_MAX                                                  \
    (INT64_C(1) << 61) /* later times are not believed: sums stay in range \
                        */

enum pw_frame_kind {
    PW_FRAME_BLOCK = 1, /* packets of one block, with a CRC each */
    PW_FRAME_ACK,
    PW_FRAME_NACK,      /* code: PW_NACK_* */
    PW_FRAME_ERR,       /* explicit request to retransmit: argument0 is the mailbox word */
    PW_FRAME_NO_ANSWER, /* no (further) answer will come for this attempt: only a timeout can act;
                           with PW_FLAG_COPY: for this copy */
    PW_FRAME_READ_REQUEST,
    PW_FRAME_READ_REFUSED, /* code: PW_NACK_* */
    PW_FRAME_COMPLETION,   /* completion notification of a transfer of several blocks */
    PW_FRAME_CLOSE,        /* the source has every acknowledgement: forget the stream */
    PW_FRAME_ABORT,        /* the source gives the transfer up; code: PW_NACK_* */
    PW_FRAME_GRANT,        /* these blocks will not fault, and take so long to translate: see
                              pw_grant_frame */
    PW_FRAME_DROPPED,      /* a frame of yours could not be read; its time is not known either: 0 */
    PW_FRAME_ERR_LATER,    /* with PW_FLAG_ERR_FOLLOWS: what a NACK would say, where there is none;
                              else: no ERR of the stream comes before argument0 */
    PW_FRAME_BOUND,        /* no further block of the stream arrives before time_ns */
    PW_FRAME_KINDS
};

#define PW_FLAG_ERR_FOLLOWS 1 /* on NACK: an ERR comes for this attempt, not before argument0 */
#define PW_FLAG_NOTIFY 2      /* on BLOCK: the arrival of this block completes the transfer */
#define PW_FLAG_COPY \
    4 /* on BLOCK: the network made it of an attempt that has its own answer; on its answers */
#define PW_FLAG_BEHIND \
    32 /* on NO_ANSWER: dropped behind a block of its transfer that brings it again */
#define PW_FLAG_PAIR \
    16 /* on BLOCK: the next frame's block is on the link at the same time, packet by packet */
#define PW_FLAG_MORE 64 /* on READ_REQUEST: of a piece; another read of the region follows */
#define PW_FLAG_AT_REST \
    128 /* on BLOCK: the only one of a read that came while its source had nothing else to do */
#define PW_FLAG_IMPAIRED 8 /* on NACK, NO_ANSWER: an injected fault took (a part of) the answer */

typedef struct {
    uint16_t magic;
    uint8_t kind; /* enum pw_frame_kind */
    uint8_t flags;
    uint32_t frame_bytes; /* with header and padding */
    uint32_t source_node; /* 22 bits */
    uint16_t pdid;
    uint16_t how; /* with PW_FLAG_AT_REST: its first page was translated, enum pw_translation */
    int64_t time_ns;
    uint32_t crc;    /* CRC-32C of everything before the packets' payload, this field 0 */
    uint32_t stream; /* source's transfer id, or the reader's read id with PW_STREAM_READ */
} pw_frame_header;
_Static_assert(sizeof(pw_frame_header) == 32, "frame header");

#define PW_STREAM_READ 0x80000000u

typedef struct {
    pw_frame_header header;
    uint32_t block_idx;
    uint16_t transaction_id; /* 14 bits */
    uint16_t sequence;       /* 12 bits */
    uint32_t code;
    uint32_t reserved;
    uint64_t
        argument0; /* ERR: the mailbox word; NACK, ERR_LATER: when an ERR arrives at the earliest */
    uint64_t
        argument1; /* ACK, NACK, NO_ANSWER: until when flow control kept the block at the source */
} pw_control_frame;
_Static_assert(sizeof(pw_control_frame) == 64, "control frame");

typedef struct {
    pw_frame_header header;
    uint64_t source_address;
    uint64_t destination_address;
    uint64_t num_bytes;
    uint64_t key; /* 0: protection by PDID alone, where the peer's settings allow that */
    pw_notification notification;
} pw_read_request_frame;
_Static_assert(sizeof(pw_read_request_frame) == 88, "read request frame");

/* The reader has looked at the pages of these blocks of its stream already. So their
 * acknowledgements can be foreseen, and the source need not wait for each physically (emulation
 * only: in virtual time nothing changes). Four bits a block: how its first page is translated, enum
 * pw_translation of smmu.h. */
#define PW_GRANT_BLOCKS 128
typedef struct {
    pw_frame_header header;
    uint32_t first_block;
    uint32_t num_blocks;
    uint64_t translations[PW_GRANT_BLOCKS / 16];
} pw_grant_frame;
_Static_assert(sizeof(pw_grant_frame) == 104, "grant frame");

#define PW_WAITED_MAX_NS (1u << 30) /* longer is told as this */

/* Followed by one CRC for each of num_packets packets (padded to 8 bytes; unused when it
 * is_unsealed), then by the payload; from a node without bytes by the mask of the packets that were
 * damaged on their way alone. */
typedef struct {
    pw_frame_header header;
    uint32_t block_idx;
    uint16_t transaction_id;
    uint16_t sequence;
    uint64_t destination_address; /* of the block's first byte */
    uint64_t transfer_address;    /* of the transfer's first byte */
    uint64_t transfer_bytes;
    uint64_t packet_mask; /* bit i: packet i was read at the source and sent */
    uint32_t block_bytes;
    uint16_t num_packets;
    uint16_t is_unsealed; /* nothing on its way can damage the payload: see pw_ni_set_unsealed */
    uint32_t packet_interval_ps;  /* between arrivals of packets; the first is at time_ns */
    uint32_t waited_ns;           /* of which the first waited for the link: <= PW_WAITED_MAX_NS */
    int64_t last_packet_ns;       /* the last one may be shorter */
    int64_t held_ns;              /* of the way: an injected delay in the network */
    pw_notification notification; /* of the transfer */
    uint64_t key; /* of the buffer that is written; 0: protection by PDID alone, where allowed */
} pw_block_frame;
_Static_assert(sizeof(pw_block_frame) == 136, "block frame");

/* A burst holds at most this; one block with its CRCs always fits. */
/* cdef begin */
#define PW_BURST_BYTES 135168
/* cdef end */
#define PW_BLOCK_FRAME_MAX (sizeof(pw_block_frame) + 4 * PW_BLOCK_PACKETS + PW_BLOCK_BYTES)
_Static_assert(8 * PW_BLOCK_FRAME_MAX <= PW_BURST_BYTES, "eight blocks fit in a burst");

/* Retransmit-after-page-fault message in the mailbox [R5 3.4, PSI 3.2.3]: opcode 2 bits, wired PDID
 * 16, transaction id 14, sequence number 12, claimed PDID 16. */
#define PW_ERR_OPCODE 2u
static inline uint64_t pw_err_word(uint16_t wired_pdid, uint16_t transaction_id, uint16_t sequence,
                                   uint16_t claimed_pdid)
{
    return (uint64_t)PW_ERR_OPCODE | (uint64_t)wired_pdid << 2 |
           (uint64_t)(transaction_id & 0x3fffu) << 18 | (uint64_t)(sequence & 0xfffu) << 32 |
           (uint64_t)claimed_pdid << 44;
}
static inline uint16_t pw_err_wired_pdid(uint64_t word) { return (uint16_t)(word >> 2); }
static inline uint16_t pw_err_claimed_pdid(uint64_t word) { return (uint16_t)(word >> 44); }

/* Fill in the CRC of the first covered_bytes of a frame; and is it right? */
void pw_frame_seal(pw_frame_header *header, uint32_t covered_bytes);
bool pw_frame_is_sound(const pw_frame_header *header, uint32_t covered_bytes);

/* Outgoing bursts: one open buffer a peer, taken from a pool, filled with frames, handed to the
 * host when it asks and returned by it when sent. Grows by a few buffers when the host is slow to
 * return them; no allocation otherwise. */

/* cdef begin */
typedef struct {
    uint32_t peer;
    uint32_t num_bytes;
    uint8_t *data;       /* valid until pw_ni_tx_release */
    uint32_t full_bytes; /* with what its frames left out */
} pw_burst;
/* cdef end */

typedef struct pw_burst_pool pw_burst_pool;
struct pw_parts; /* native/parts.h */

int pw_burst_pool_create(pw_burst_pool **out);
void pw_burst_pool_destroy(pw_burst_pool *pool);
/* Memory for the buffers that are made from now on, aligned to 64 bytes: allocate's, which must
 * outlive their use but not the pool; NULL from it: the pool takes its own for these. */
typedef uint8_t *(*pw_burst_allocate)(void *context, size_t num_bytes);
void pw_burst_pool_set_memory(pw_burst_pool *pool, pw_burst_allocate allocate, void *context);
/* Frames leave bytes out: buffers are parts, as long as what stands in them needs; of the pool's
 * own memory, or with `shared` of that, which outlives their use but not the pool. Before the
 * first. */
void pw_burst_pool_set_parts(pw_burst_pool *pool, struct pw_parts *shared);
/* Room for a frame of num_bytes (<= PW_BURST_BYTES) to the peer, zeroed header not included;
 * NULL when the host has no memory. */
void *pw_burst_append(pw_burst_pool *pool, uint32_t peer, uint32_t num_bytes);
/* The same for a frame that leaves bytes out: a burst holds as many frames as with all full_bytes
 * of each, so that no order depends on it. */
void *pw_burst_append_part(pw_burst_pool *pool, uint32_t peer, uint32_t num_bytes,
                           uint32_t full_bytes);
/* The same in a burst of its own, which pw_burst_take does not give; pw_burst_release takes it
 * back. */
void *pw_burst_alone(pw_burst_pool *pool, uint32_t peer, uint32_t num_bytes, uint32_t full_bytes);
/* What such a burst is, by its data. */
void pw_burst_of_alone(const pw_burst_pool *pool, const uint8_t *data, pw_burst *out);
/* The next frames to the peer, num_bytes (<= PW_BURST_BYTES) of them with all that they leave out,
 * stand in one burst. Frames that leave bytes out stay where they are: two at most. */
void pw_burst_reserve(pw_burst_pool *pool, uint32_t peer, uint32_t num_bytes);
/* The frame that was appended for the peer last, of num_bytes, if no other is to go; else NULL. */
const void *pw_burst_only(const pw_burst_pool *pool, uint32_t peer, uint32_t num_bytes);
/* The frame that was appended for the peer last is not sent. */
void pw_burst_take_back(pw_burst_pool *pool, uint32_t peer, uint32_t num_bytes);
/* 1 and *out when a burst is ready, else 0. */
int pw_burst_take(pw_burst_pool *pool, pw_burst *out);
/* Buffers that there are, in use or not. */
uint32_t pw_burst_pool_num_buffers(const pw_burst_pool *pool);
/* Is a burst full, as the latest one is that has no room for a block? The host should send it
 * before more is made. Not between two frames that must share one. */
bool pw_burst_close_full(pw_burst_pool *pool);
/* Frames for the peer have not been taken. */
bool pw_burst_waits(const pw_burst_pool *pool, uint32_t peer);
void pw_burst_release(pw_burst_pool *pool, uint8_t *data);

#endif
