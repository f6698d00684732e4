/* Memory that one process of a host makes and its peers on that host map: a memfd, so that nothing
 * is left when processes are killed. Sparse: what nobody has written costs nothing, what lies
 * behind `reachable_bytes` is not accessible, so that mlockall does not fill it. Peers find it
 * through /proc/PID/fd and keep it by their mapping: a segment does not vanish or shrink when its
 * maker dies. One thread at a time. */
#ifndef PW_NODE_WIRES_SHARED_SEGMENT_H
#define PW_NODE_WIRES_SHARED_SEGMENT_H
#include "native/types.h"

/* A page that tells a process from its forked children, for what a child must not use: one load
 * instead of a system call. Read-only after creation: any thread may read. */

/* Reads 1 in this process and 0 in its forked children. NULL: the kernel refuses, see errno. */
uint8_t *pw_owner_page_create(void);
void pw_owner_page_destroy(uint8_t *page);

/* cdef begin */
/* What peers must know of a process's segment; the host exchanges it as bytes. */
typedef struct {
    char boot_id[40]; /* of the host's kernel */
    uint64_t pid_namespace;
    uint64_t device, inode; /* of the memfd */
    uint64_t nonce[2];
    uint64_t num_bytes;
    int32_t pid; /* 0: no segment */
    int32_t fd;
} pw_segment_facts;
/* cdef end */

/* Stands at the beginning of every segment. */
typedef struct {
    uint64_t nonce[2];
    uint32_t node; /* whose it is: a peer that gives another's for its own is not believed */
} pw_segment_header;

typedef struct {
    uint8_t *base; /* NULL: none */
    size_t num_bytes, reachable_bytes;
} pw_segment;

/* This process and its host, for facts without a segment. PW_ERR_HOST: errno tells why. */
int pw_segment_find_facts(pw_segment_facts *out);
/* Zeroed memory of num_bytes, the first reachable_bytes of them accessible. The fd in *facts is the
 * caller's to close once all peers have attached. PW_ERR_HOST: errno tells why. */
int pw_segment_create(size_t num_bytes, size_t reachable_bytes, pw_segment *out,
                      pw_segment_facts *facts);
/* Map a peer's. PW_ERR_HOST: it is on another host, or the kernel refuses; errno tells why. */
int pw_segment_attach(const pw_segment_facts *theirs, const pw_segment_facts *mine,
                      size_t reachable_bytes, pw_segment *out);
void pw_segment_detach(pw_segment *segment);
/* Make num_bytes at the offset accessible: PW_ERR_INVALID when they are not within the segment. */
int pw_segment_extend(pw_segment *segment, size_t offset, size_t num_bytes);

static inline int pw_segment_reach(pw_segment *segment, size_t offset, size_t num_bytes)
{
    if (offset <= segment->reachable_bytes && num_bytes <= segment->reachable_bytes - offset)
        return PW_OK;
    return pw_segment_extend(segment, offset, num_bytes);
}
static inline bool pw_segment_has(const pw_segment *segment, const uint8_t *data, size_t num_bytes)
{
    const uintptr_t offset = (uintptr_t)data - (uintptr_t)segment->base;
    return offset <= segment->reachable_bytes && num_bytes <= segment->reachable_bytes - offset;
}

#endif
