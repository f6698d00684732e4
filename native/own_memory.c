#include "native/own_memory.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* Reserved: what is not touched costs nothing. Every second range is twice as long. */
#define RANGE_BYTES ((size_t)64 << 20)
#define RANGE_BYTES_MIN ((size_t)4 << 20)
#define NUM_RANGES 16
#define ALIGNMENT 16
/* Sizes of blocks: multiples of ALIGNMENT, then from FINE_BYTES on four to each doubling, so that
 * less than a fifth of a block is not used. */
#define FINE_BITS 7
#define FINE_BYTES ((size_t)1 << FINE_BITS)
#define NUM_FINE (FINE_BYTES / ALIGNMENT + 1) /* the first is of 0 bytes: nobody has it */
#define LARGEST_BITS 20
#define NUM_SIZES (NUM_FINE + 4 * (LARGEST_BITS - FINE_BITS))

/* In front of what the caller gets. Blocks begin so that what is behind it is aligned. */
typedef struct {
    uint32_t size_idx;
    uint32_t offset; /* of the header in its block, because of the alignment */
} header;

_Static_assert(ALIGNMENT % sizeof(header) == 0, "memory behind a header must be aligned");
_Static_assert((size_t)1 << LARGEST_BITS == PW_OWN_BYTES_MAX, "the last size");

typedef struct free_block {
    struct free_block *next;
} free_block;

#define MIN_BYTES (sizeof(header) + sizeof(free_block))

/* One a process, as its address space is: pools of several nodes may grow at once. */
typedef struct {
    _Atomic uint64_t is_ready; /* READY once the rest may be used */
    atomic_flag is_held;
    bool knows_forks, wants_huge_pages;
    struct {
        uintptr_t begin, end;
    } ranges[NUM_RANGES];
    atomic_uint num_ranges;
    uintptr_t next; /* in the last range */
    free_block *free[NUM_SIZES];
} own_memory;

/* What the extension has allocated the provider may free, and the other way round: a policy in
 * Python works on the provider's node by the extension's functions. So the first of our shared
 * objects that asks puts this at a place that the others know, far from where Linux maps. */
#define HOME ((uintptr_t)0x6100000000)
#define READY (UINT64_C(0x7061676577697265) ^ sizeof(own_memory))
#define LOOKS 1000

static _Atomic(own_memory *) found;

/* Is the place ours? Another object of ours may be about to make it. */
static bool is_at_home(void)
{
    /* A call that reads there fails where the process would get a signal. */
    if (access((const char *)HOME, F_OK) && errno == EFAULT) return false;
    const own_memory *there = (const own_memory *)HOME;
    uint64_t seen = 0;
    for (int look = 0; look < LOOKS && !seen; look++) {
        seen = atomic_load_explicit(&there->is_ready, memory_order_acquire);
        if (!seen) sched_yield();
    }
    return seen == READY;
}

/* The smallest size that so many bytes, 1 to PW_OWN_BYTES_MAX, fit in. */
static uint32_t size_for(size_t num_bytes)
{
    if (num_bytes <= FINE_BYTES) return (uint32_t)((num_bytes + ALIGNMENT - 1) / ALIGNMENT);
    const uint32_t bits = 63 - (uint32_t)__builtin_clzll(num_bytes - 1);
    const size_t quarter = (num_bytes - 1 - ((size_t)1 << bits)) >> (bits - 2);
    return (uint32_t)(NUM_FINE + 4 * (bits - FINE_BITS) + quarter);
}

static size_t bytes_of(uint32_t size_idx)
{
    if (size_idx < NUM_FINE) return size_idx * (size_t)ALIGNMENT;
    const uint32_t doubling = FINE_BITS + (size_idx - (uint32_t)NUM_FINE) / 4;
    const size_t quarters = 5 + (size_idx - NUM_FINE) % 4;
    return quarters << (doubling - 2);
}

static own_memory *find(void)
{
    static own_memory alone = {
        .is_held = ATOMIC_FLAG_INIT}; /* of this object, when the place is another's */
    own_memory *own = atomic_load_explicit(&found, memory_order_acquire);
    if (own) return own;
    void *made = mmap((void *)HOME, sizeof *own, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (made != MAP_FAILED && (uintptr_t)made != HOME) { /* Linux before 4.17 */
        munmap(made, sizeof *own);
        made = MAP_FAILED;
    }
    if (made != MAP_FAILED) {
        own = made;
        atomic_flag_clear(&own->is_held);
        atomic_store_explicit(&own->is_ready, READY, memory_order_release);
    } else own = is_at_home() ? (own_memory *)HOME : &alone;
    atomic_store_explicit(&found, own, memory_order_release);
    return own;
}

static void take(void)
{
    own_memory *own = find();
    while (atomic_flag_test_and_set_explicit(&own->is_held, memory_order_acquire)) sched_yield();
}

static void give(void) { atomic_flag_clear_explicit(&find()->is_held, memory_order_release); }

static bool add_range(void)
{
    own_memory *own = find();
    const unsigned num_ranges = atomic_load_explicit(&own->num_ranges, memory_order_relaxed);
    if (num_ranges == NUM_RANGES) return false;
    /* Else a child could find the lock held by a thread that it does not have. */
    if (!own->knows_forks && pthread_atfork(take, give, give)) return false;
    own->knows_forks = true;
    size_t num_bytes = RANGE_BYTES << num_ranges / 2;
    void *base = MAP_FAILED;
    while (base == MAP_FAILED && num_bytes >= RANGE_BYTES_MIN) { /* ulimit -v may allow less */
        base = mmap(NULL, num_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base == MAP_FAILED) num_bytes /= 2;
    }
    if (base == MAP_FAILED) return false;
    if (own->wants_huge_pages) (void)madvise(base, num_bytes, MADV_HUGEPAGE);
    own->next = (uintptr_t)base + ALIGNMENT - sizeof(header);
    own->ranges[num_ranges].begin = (uintptr_t)base;
    own->ranges[num_ranges].end = (uintptr_t)base + num_bytes;
    atomic_store_explicit(&own->num_ranges, num_ranges + 1, memory_order_release);
    return true;
}

void pw_own_use_huge_pages(void)
{
    take();
    own_memory *own = find();
    const unsigned num_ranges = atomic_load_explicit(&own->num_ranges, memory_order_relaxed);
    for (unsigned i = 0; i < num_ranges && !own->wants_huge_pages; i++)
        (void)madvise((void *)own->ranges[i].begin, own->ranges[i].end - own->ranges[i].begin,
                      MADV_HUGEPAGE);
    own->wants_huge_pages = true;
    give();
}

/* A block that nobody had before; 0: full. What is left of a range that ends is not used. */
static uintptr_t cut(size_t num_bytes)
{
    own_memory *own = find();
    const unsigned num_ranges = atomic_load_explicit(&own->num_ranges, memory_order_relaxed);
    if (!num_ranges || own->ranges[num_ranges - 1].end - own->next < num_bytes) {
        if (!add_range()) return 0;
    }
    const uintptr_t block = own->next;
    own->next += num_bytes;
    return block;
}

void *pw_own_allocate(size_t num_bytes, size_t alignment)
{
    const size_t padding = alignment > ALIGNMENT ? alignment : 0;
    if (num_bytes > PW_OWN_BYTES_MAX || padding > PW_OWN_BYTES_MAX) return NULL;
    const size_t needed = sizeof(header) + padding + num_bytes;
    own_memory *own = find();
    if (needed > PW_OWN_BYTES_MAX) return NULL;
    const uint32_t size_idx = size_for(needed < MIN_BYTES ? MIN_BYTES : needed);
    take();
    uintptr_t block = (uintptr_t)own->free[size_idx];
    if (block) own->free[size_idx] = own->free[size_idx]->next;
    else block = cut(bytes_of(size_idx));
    give();
    if (!block) return NULL;
    uintptr_t memory = block + sizeof(header);
    if (padding) memory = (memory + alignment - 1) & ~((uintptr_t)alignment - 1);
    header *before = (header *)memory - 1;
    *before = (header){.size_idx = size_idx, .offset = (uint32_t)((uintptr_t)before - block)};
    return (void *)memory;
}

bool pw_own_is_ours(const void *memory)
{
    own_memory *own = find();
    const uintptr_t address = (uintptr_t)memory;
    const unsigned num_ranges = atomic_load_explicit(&own->num_ranges, memory_order_acquire);
    for (unsigned i = 0; i < num_ranges; i++)
        if (address >= own->ranges[i].begin && address < own->ranges[i].end) return true;
    return false;
}

size_t pw_own_room(const void *memory)
{
    const header *before = (const header *)memory - 1;
    return bytes_of(before->size_idx) - before->offset - sizeof(header);
}

void pw_own_release(void *memory)
{
    const header before = *((const header *)memory - 1);
    own_memory *own = find();
    free_block *block = (void *)((char *)memory - sizeof(header) - before.offset);
    take();
    block->next = own->free[before.size_idx];
    own->free[before.size_idx] = block;
    give();
}
