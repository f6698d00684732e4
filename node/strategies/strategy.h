/* Memory strategies: what is done to a span before the NI uses it, and after. A strategy works on
 * the real pages of its process and says what that costs the emulated CPU. A new one is a file and
 * a line in strategies.c. One thread at a time. */
#ifndef PW_NODE_STRATEGIES_STRATEGY_H
#define PW_NODE_STRATEGIES_STRATEGY_H
#include "native/costs.h"
#include "native/memory.h"
#include "native/pinned.h"
#include "native/settings.h"
#include "node/settings/cost_table.h"
#include "node/strategies/page_counts.h"

/* cdef begin */
typedef struct {
    uint64_t address, num_bytes; /* at least one byte */
} pw_span;

typedef struct {
    int64_t touch_ns, pin_ns, copy_ns; /* CPU time, by what the report counts it as */
} pw_strategy_cost;

/* The NI may use a span until `release`. */
typedef struct {
    pw_span span;
    pw_strategy_cost cost; /* what acquire took */
    uint64_t token;        /* the strategy's own note to itself, for release */
    uint64_t ni_address;   /* where the NI reads or writes instead of span.address; 0: there */
    int64_t from_ns;       /* of a piece: its buffer is free from here on */
    uint64_t landed_bytes; /* what the NI has written from ni_address on; the host fills it in */
    bool is_in_pieces;     /* of a message that has none itself: the host's own note */
} pw_lease;

#define PW_ACCESS_READ 0  /* the NI will read the span */
#define PW_ACCESS_WRITE 1 /* it will write it */
/* Added to either: peers know the span by its address (registered memory), so that the lease cannot
 * name another place. */
#define PW_ACCESS_IN_PLACE 2
/* Added to either: the span is a message's. Strategies with piece operations are not asked of it:
 * they take it in pieces when it is matched. */
#define PW_ACCESS_MESSAGE 4

#define PW_STRATEGY_REASON_BYTES 200

/* What strategies count, for the report, which has it by the names of these fields. */
typedef struct {
    uint64_t strategy_hits, strategy_misses; /* spans that were ready by what is kept, or not */
    uint64_t strategy_evictions;             /* ranges given up for a limit */
    uint64_t strategy_invalidations;         /* ranges given up because their mapping went */
    uint64_t strategy_major_faults;          /* pages that it brought back from swap */
    uint64_t stale_transfers;                /* used what is kept of a mapping that had gone */
    uint64_t copies, copied_bytes;
    uint64_t pool_waits;                     /* copies that waited for a free buffer */
    uint64_t firehose_moves, firehose_pages; /* round trips to get hold of pages; how many pages */
    uint64_t firehose_waits; /* reads that waited because all firehoses to the peer are in use */
} pw_strategy_counters;

/* What a strategy works with; lives as long as it. */
typedef struct {
    pw_memory *memory;
    const pw_cost_tables *tables;
    const pw_costs *costs;
    const pw_settings *settings;
    int64_t now_ns; /* of the call under way: the host says so before it */
    /* Told, with its owner, of pages whose translations the NI must not keep; NULL: nobody is. */
    void (*unpinned)(void *owner, uint64_t first_page, uint64_t num_pages);
    void *owner;
    bool advises;      /* the driver is told of a message's destination when it is matched */
    bool has_no_bytes; /* addresses are no memory of this process: nothing is read or written */
    pw_pinned pinned;
    pw_page_counts pinned_pages; /* which */
    pw_strategy_counters counters;
    pw_strategy_cost start_cost; /* what `create` took */
    /* Of the last function that failed: a sentence that names value, limit and remedy. */
    char reason[PW_STRATEGY_REASON_BYTES];
} pw_strategy_context;

/* For a strategy that takes messages in pieces of strategy.piece, as they go through it. The
 * library's progress thread, on a core of its own, does what these cost, one after the other. */
typedef struct {
    /* Like `acquire` and `release`. PW_ERR_FULL with `waits`: asked again when a piece was freed.
     */
    int (*acquire)(void *self, pw_span span, int access, pw_lease *out);
    int (*release)(void *self, const pw_lease *lease, pw_strategy_cost *cost);
    /* The thread is through with the release at free_ns; NULL: it does not matter. */
    void (*freed)(void *self, const pw_lease *lease, int64_t free_ns);
    bool waits;    /* pieces are few: a message that finds none waits */
    bool is_ahead; /* pieces are taken before the other end has asked for them */
} pw_piece_ops;

/* How messages go that do not go as a whole: message_way.h. */
typedef struct pw_message_way pw_message_way;

/* Functions return PW_OK or a negative PW_ERR_*, which ends the call that asked; what they hand out
 * is written on success alone. All but `acquire` may be NULL: there is nothing to do. */
typedef struct {
    const char *name;
    const char *summary; /* a line for `pagewire info` */
    /* *self is the context, until a strategy puts an object of its own there. Neither this nor
     * `destroy` is called for a host that brings its object. */
    int (*create)(pw_strategy_context *context, void **self);
    void (*destroy)(void *self);
    int (*acquire)(void *self, pw_span span, int access, pw_lease *out);
    int (*release)(void *self, const pw_lease *lease, pw_strategy_cost *cost);
    /* The mappings of these pages went or changed; after a fork that is every page. Told of what
     * the program says; whoever keeps anything of a mapping asks pw_memory_is_pinned or the walk
     * too, as the engine does, because most programs say nothing. */
    int (*invalidated)(void *self, uint64_t first_page, uint64_t num_pages);
    int64_t unit;               /* PW_TRANSLATION_* that it needs in place of the SMMU; 0: none */
    const pw_message_way *way;  /* NULL: messages go as a whole */
    const pw_piece_ops *pieces; /* of a way in pieces */
} pw_strategy_ops;

/* The engine's settings with the unit that the strategy needs. */
void pw_strategy_choose_unit(const pw_strategy_ops *strategy, pw_settings *settings);
/* The built-in strategy of that name, NULL when there is none. */
const pw_strategy_ops *pw_strategy_find(const char *name);
/* The idx-th built-in one, NULL behind the last. */
const pw_strategy_ops *pw_strategy_at(uint32_t idx);
/* cdef end */
#endif
