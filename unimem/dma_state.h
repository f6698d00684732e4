/* What a node's DMA library is made of, for its own files: dma_buffers.c has the buffers, dma.c the
 * transfers. */
#ifndef PW_UNIMEM_DMA_STATE_H
#define PW_UNIMEM_DMA_STATE_H
#include "node/wires/shared_segment.h"
#include "unimem/dma.h"
#include "unimem/door.h"

#define DMA_ASKS 16 /* under way at a time */
#define DMA_TRANSFERS UNIM_DMA_TRANSFERS_MAX
#define DMA_BUFFER_MAX_BYTES 4294967295 /* of a descriptor's size field */
#define DMA_OWNER_SHIFT 48

/* A handle is never followed: one of a buffer that is gone names nothing, and is found out. */
_Static_assert(sizeof(unim_buf *) >= sizeof(uint64_t), "a handle is the buffer's id");
static inline uint64_t id_of(const unim_buf *buffer) { return (uintptr_t)buffer; }

/* A buffer as any node knows it. */
typedef struct {
    uint64_t id; /* the owner in the upper 16 bits; never given again */
    uint64_t address, num_bytes;
    uint64_t key; /* what reads of it need */
    uint32_t node;
    uint32_t reserved;
} dma_buffer;

/* Pages that the library has mapped for the NI: a buffer of this node, or an internal one. */
typedef struct {
    dma_buffer buffer; /* id 0: internal */
    pw_lease lease;
    void *mapped; /* with the pages before it, for alignment */
    size_t mapped_bytes;
    pw_segment_facts segment; /* of a buffer that other processes can map; pid 0: they cannot */
    bool is_live, is_used;    /* used: an internal one, by a transfer */
} dma_pages;

/* A buffer that this node's program knows. */
typedef struct {
    dma_buffer buffer;
    pw_segment segment; /* of another process, mapped for a pointer to it; base NULL: not */
    void *memory;       /* the buffer there */
} dma_known;

/* What a kernel asks another one, and that with its answer: behind the envelope of a message, whose
 * four words have no room for it. */
typedef struct {
    uint64_t number;        /* that its answer must have */
    uint32_t what, refusal; /* ASK_*; REFUSED_* */
    uint64_t value;         /* bytes wanted, or a buffer's id */
    uint64_t limit;         /* that a refusal names */
    dma_buffer buffer;
} dma_request;

/* Where processes of the owner's host find the memory of a buffer: behind the answer of
 * ASK_MEMORY. */
typedef struct {
    pw_segment_facts segment;
    uint64_t offset;
} dma_place;

typedef struct {
    bool is_open, is_answered;
    uint32_t node;
    int64_t answer_ns;
    dma_request request;
    dma_place place;
} dma_ask;

enum { ASK_ALLOCATE, ASK_FREE, ASK_KNOWN, ASK_MEMORY };
enum { REFUSED_NOT, REFUSED_SIZE, REFUSED_COUNT, REFUSED_MEMORY, REFUSED_BUFFER, REFUSED_POINTER };

enum stage { STAGE_NONE, STAGE_WAITS, STAGE_MOVES, STAGE_OVER };

typedef struct {
    uint64_t id, num_bytes;
    dma_buffer source, destination; /* where the legs begin and end, offsets included */
    uint64_t buffers[2];            /* ids that it uses; 0: memory */
    void *copied_to;                /* memory that gets it in the end; NULL: none */
    dma_pages *internal;            /* NULL: none */
    enum stage stage;
    bool is_first_leg;          /* of two: buffer to internal, internal to buffer */
    unim_dma_callback callback; /* NULL: none, or it has been told */
    void *arg;
    pw_handle *handle;
    int64_t ready_ns; /* from when on its leg can be started */
    int64_t start_ns, complete_ns;
    int error;
} dma_transfer;

struct unim_dma {
    unimem *memory; /* of who has opened it; NULL: nobody */
    pagewire_node *door;
    pw_node *node;
    pw_ni *ni; /* this and what follows are the node's */
    pw_clock *clock;
    const pw_costs *costs;
    dma_pages **pages; /* of this node; none is forgotten before the end */
    uint32_t num_pages_rows, pages_capacity;
    uint64_t last_number; /* of this node's buffers */
    dma_known *known;     /* by this node's program */
    uint32_t num_known, known_capacity;
    dma_ask asks[DMA_ASKS];
    uint64_t last_ask;
    dma_transfer *transfers;    /* DMA_TRANSFERS by id, from the first opening on */
    uint32_t num_under_way;     /* transfers: not over */
    uint64_t first_id, next_id; /* the oldest that is not over and told; the next one */
    int64_t submitter_ns;       /* its core is busy until then */
    int64_t freed_ns;           /* since no channel was free, the first one that became so */
    bool is_blocked;
    bool is_telling; /* a callback is called */
};

/* The end of a call: calls back for what is over. */
int pw_dma_leave(unim_dma *dma, int result);
/* A buffer that this node's program knows; NULL: none. Good until the next buffer. */
const dma_buffer *pw_dma_find(const unim_dma *dma, uint64_t id);
/* An internal buffer of at least so many bytes, which the caller uses until is_used is false. */
int pw_dma_take_internal(unim_dma *dma, uint64_t num_bytes, dma_pages **out);
/* Transfers that are not over at the CPU's clock and use the buffer; 0: any buffer. */
uint32_t pw_dma_num_using(const unim_dma *dma, uint64_t buffer);
#endif
