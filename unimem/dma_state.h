/* What a node's DMA library is made of, for its own files: dma_buffers.c has the buffers, dma.c the
 * transfers. */
#ifndef PW_UNIMEM_DMA_STATE_H
#define PW_UNIMEM_DMA_STATE_H
#include "unimem/dma.h"

#define DMA_ASKS 16 /* under way at a time */
#define DMA_OWNER_SHIFT 48
#define DMA_NUMBER_MASK ((UINT64_C(1) << DMA_OWNER_SHIFT) - 1)

/* Pages that the library has mapped for the NI: a buffer of this node, or an internal one. */
typedef struct {
    pw_dma_buffer buffer; /* id 0: internal */
    pw_lease lease;
    void *mapped; /* with the pages before it, for alignment */
    size_t mapped_bytes;
    bool is_live, is_used; /* used: an internal one, by a transfer */
} dma_pages;

typedef struct {
    bool is_open, is_answered;
    uint32_t node;
    uint64_t number; /* that its answer must have */
    uint32_t what;   /* ASK_* */
    uint32_t refusal;
    uint64_t value, limit;
    pw_dma_buffer buffer;
    int64_t answer_ns;
} dma_ask;

enum { ASK_ALLOCATE, ASK_FREE, ASK_KNOWN };
enum { REFUSED_NOT, REFUSED_SIZE, REFUSED_COUNT, REFUSED_MEMORY, REFUSED_BUFFER };

enum stage { STAGE_NONE, STAGE_WAITS, STAGE_MOVES, STAGE_OVER };

typedef struct {
    uint64_t id, num_bytes;
    pw_dma_buffer source, destination; /* where the legs begin and end, offsets included */
    uint64_t buffers[2];               /* ids that it uses; 0: memory */
    void *copied_to;                   /* memory that gets it in the end; NULL: none */
    dma_pages *internal;               /* NULL: none */
    enum stage stage;
    bool is_first_leg; /* of two: buffer to internal, internal to buffer */
    bool is_told, tells;
    pw_handle *handle;
    int64_t ready_ns; /* from when on its leg can be started */
    int64_t start_ns, complete_ns;
    int error;
} dma_transfer;

struct pw_dma {
    pw_node *node;
    pw_ni *ni; /* this and what follows are the node's */
    pw_clock *clock;
    const pw_costs *costs;
    const pw_cost_tables *tables;
    const pw_settings *settings;
    uint16_t pdid;
    bool is_open;
    dma_pages **pages; /* of this node; none is forgotten before the end */
    uint32_t num_pages_rows, pages_capacity;
    uint64_t last_number; /* of this node's buffers */
    pw_dma_buffer *known; /* by this node's program */
    uint32_t num_known, known_capacity;
    dma_ask asks[DMA_ASKS];
    uint64_t last_ask;
    dma_transfer *transfers;    /* PW_DMA_TRANSFERS, by id; made when the library is opened */
    uint32_t num_under_way;     /* transfers: not over */
    uint64_t first_id, next_id; /* the oldest that is not over and told; the next one */
    int64_t submitter_ns;       /* its core is busy until then */
    int64_t freed_ns;           /* since no channel was free, the first one that became so */
    bool is_blocked;
};

/* An internal buffer of at least so many bytes, which the caller uses until is_used is false. */
int pw_dma_take_internal(pw_dma *dma, uint64_t num_bytes, dma_pages **out);
/* Transfers that are not over at the CPU's clock and use the buffer; 0: any buffer. */
uint32_t pw_dma_num_using(const pw_dma *dma, uint64_t buffer);
#endif
