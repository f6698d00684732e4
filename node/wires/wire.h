/* What carries bursts of frames between the nodes of a run. A wire knows neither frames nor virtual
 * time; it keeps the order of bursts between two nodes. One thread at a time. */
#ifndef PW_NODE_WIRES_WIRE_H
#define PW_NODE_WIRES_WIRE_H
#include "native/types.h"

/* cdef begin */
typedef struct pw_wire pw_wire;

/* A burst that is here; its bytes stay until `taken`. */
typedef struct {
    uint32_t source;
    uint32_t num_bytes;
    const uint8_t *data;
    uint64_t token; /* the wire's own */
} pw_wire_burst;

/* Bursts sent, by the way that they took. */
typedef struct {
    uint64_t num_short;      /* copied to where the other node looks */
    uint64_t num_in_place;   /* the other node reads them where they were written */
    uint64_t num_copied;     /* as in place, after a copy: they were written elsewhere */
    uint64_t num_by_message; /* by a message of the library underneath */
} pw_wire_counts;

/* Where a reader takes a promise of a peer's (ni/ni.h), in memory that both see. */
typedef struct pw_promise_place pw_promise_place;

/* How a node waits that has nothing to do; see node/wires/bell.h. */
typedef struct {
    uint32_t *bell;    /* at which it rests; NULL: no peer would ring */
    uint32_t calls;    /* PW_BELL_*: what it rests for */
    uint32_t num_near; /* other nodes on this host */
    int64_t limit_ns;  /* of a short rest: not all that may come rings */
} pw_wire_rest;

typedef struct {
    /* Send num_bytes at data, which the node does not touch before the wire gives the buffer back:
     * at once, with *is_free true, or later by `sent`. A negative PW_ERR_* ends the run. */
    int (*send)(pw_wire *wire, uint32_t peer, uint8_t *data, uint32_t num_bytes, bool *is_free);
    /* The next buffer that has left since the last look, NULL: none. */
    uint8_t *(*sent)(pw_wire *wire);
    /* 1 and *out when a burst is here, 0 when none is, else a negative PW_ERR_*. */
    int (*poll)(pw_wire *wire, pw_wire_burst *out);
    /* The node has read a burst. */
    void (*taken)(pw_wire *wire, const pw_wire_burst *burst);
    /* Bursts that have not left yet. */
    uint32_t (*num_pending)(const pw_wire *wire);
    /* Memory for bursts that this wire sends best, NULL: any does. Asked when a pool grows; lives
     * as long as the wire. */
    uint8_t *(*allocate)(pw_wire *wire, size_t num_bytes);
    /* Memory for bursts of nodes without bytes, which all nodes of this wire share; lives as long
     * as the wire. NULL: none. */
    struct pw_parts *(*parts)(pw_wire *wire);
    /* That of a node's promises to a peer; NULL: there is none. NULL: never. */
    pw_promise_place *(*promises)(const pw_wire *wire, uint32_t node, uint32_t peer);
    /* false: nothing is known. NULL: never. */
    bool (*rest)(const pw_wire *wire, pw_wire_rest *out);
    /* NULL: the wire has one way only. */
    void (*count)(const pw_wire *wire, pw_wire_counts *out);
    /* What the last negative PW_ERR_* was about, a sentence. NULL: the wire does not say. */
    const char *(*reason)(const pw_wire *wire);
    /* Nothing is sent or received any more; frees the wire. */
    void (*close)(pw_wire *wire);
} pw_wire_ops;

/* Every implementation begins with this. */
struct pw_wire {
    const pw_wire_ops *ops;
    uint32_t node, num_nodes;
};
/* cdef end */

#define PW_PROMISE_BYTES 256
struct pw_promise_place {
    uint64_t state; /* atomic: number of the promise that stands, 0: none, or PW_PROMISE_TAKEN */
    uint8_t taken[PW_PROMISE_BYTES - 8]; /* the request and the block: the reader writes them */
};
_Static_assert(sizeof(pw_promise_place) == PW_PROMISE_BYTES, "place of a promise");
#define PW_PROMISE_TAKEN UINT64_MAX

/* A wire that joins the nodes of one process, for C hosts and unit tests: a burst is handed over by
 * reference, in the order in which bursts were sent. All nodes that it joins: one thread at a time.
 * PW_ERR_INVALID: a burst for a node that has closed its wire. */

/* cdef begin */
/* wires[i] becomes that of node i; each is closed by itself. PW_ERR_INVALID: no nodes. */
int pw_wire_join(uint32_t num_nodes, pw_wire **wires);
/* From now on `sent` is called behind each burst for a node that any of the joined wires sends; it
 * must not send. true: it keeps its order among those of its source of which the same was said.
 * `first`: bursts come in pieces, each a burst of its own there; how many bytes is the first of
 * these? NULL: as a whole. */
void pw_wire_watch(pw_wire *wire,
                   bool (*sent)(void *context, uint32_t node, const pw_wire_burst *burst),
                   uint32_t (*first)(const uint8_t *data, uint32_t num_bytes), void *context);
/* After pw_wire_expect: a further poll gives the burst of this token too; token 0: the first one of
 * the source that keeps its order. */
void pw_wire_hand(pw_wire *wire, uint32_t source, uint64_t token);
/* The next polls of a joined wire give the first burst of each source, one after the other, and
 * then none: true. false: not all are here yet, and polls give none. */
bool pw_wire_expect(pw_wire *wire, const uint32_t *sources, uint32_t num_sources);
/* They give what is here, as at the beginning. */
void pw_wire_expect_any(pw_wire *wire);
/* The node is in another process: `carry` takes a copy of each burst that is sent to it; PW_OK, or
 * the code that `send` returns. One for all joined wires. */
void pw_wire_set_away(pw_wire *wire,
                      int (*carry)(void *context, uint32_t node, const pw_wire_burst *burst),
                      void *context);
/* A burst of a node that is in another process is here, as if it had sent it now; it is copied.
 * PW_ERR_INVALID: that node is not away; PW_ERR_NOMEM. */
int pw_wire_bring(pw_wire *wire, const pw_wire_burst *burst);
/* cdef end */

#endif
