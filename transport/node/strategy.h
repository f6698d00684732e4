/* Memory strategies: what is done to a span before the NI uses it, and after. A strategy works on
 * the real pages of its process and says what that costs the emulated CPU. A new one is a file and
 * a line in strategies.c. One thread at a time. */
#ifndef PW_NODE_STRATEGY_H
#define PW_NODE_STRATEGY_H
#include "native/memory.h"
#include "transport/node/cost_table.h"

/* cdef begin */
typedef struct {
    uint64_t address, num_bytes; /* at least one byte */
} pw_span;

typedef struct {
    int64_t touch_ns, pin_ns; /* CPU time, by what the report counts it as */
} pw_strategy_cost;

/* The NI may use a span until `release`. */
typedef struct {
    pw_span span;
    pw_strategy_cost cost; /* what acquire took */
    uint64_t token;        /* the strategy's own note to itself, for release */
} pw_lease;

#define PW_ACCESS_READ 0  /* the NI will read the span */
#define PW_ACCESS_WRITE 1 /* it will write it */

#define PW_STRATEGY_REASON_BYTES 200

/* What a strategy works with; lives as long as it. */
typedef struct {
    pw_memory *memory;
    const pw_cost_tables *tables;
    /* Of the last function that failed: a sentence that names value, limit and remedy. */
    char reason[PW_STRATEGY_REASON_BYTES];
} pw_strategy_context;

/* Functions return PW_OK or a negative PW_ERR_*, which ends the call that asked; what they hand out
 * is written on success alone. All are there; only a host that brings its own object may leave out
 * create and destroy, which nobody calls for it. */
typedef struct {
    const char *name;
    const char *summary; /* a line for `pagewire info` */
    int (*create)(pw_strategy_context *context, void **self);
    void (*destroy)(void *self);
    int (*acquire)(void *self, pw_span span, int access, pw_lease *out);
    int (*release)(void *self, const pw_lease *lease, pw_strategy_cost *cost);
    /* The mappings of these pages went or changed; after a fork that is every page. */
    int (*invalidated)(void *self, uint64_t first_page, uint64_t num_pages);
} pw_strategy_ops;

/* The built-in strategy of that name, NULL when there is none. */
const pw_strategy_ops *pw_strategy_find(const char *name);
/* The idx-th built-in one, NULL behind the last. */
const pw_strategy_ops *pw_strategy_at(uint32_t idx);
/* cdef end */
#endif
