#include "native/on_core.h"
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

uint32_t pw_num_cores(void)
{
    cpu_set_t cores;
    /* It fails on hosts with more cores than the set has bits. */
    const bool is_known = !sched_getaffinity(0, sizeof cores, &cores);
    return is_known ? (uint32_t)CPU_COUNT(&cores) : UINT32_MAX;
}

/* By its header: other C libraries have no __GLIBC_PREREQ. */
#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>

/* When the kernel takes a thread off its core that is outside of the critical section which its
 * word points to, it clears the word (linux/rseq.h, rseq_cs). So the mark is a section without
 * code. Its signature, before its abort address, is what the kernel checks. */
typedef struct {
    struct rseq_cs section;
    uint32_t signature, behind; /* the latter is its abort address, which is never gone to */
} empty_section;

/* For ever: a thread may be marked when the library is unloaded, and the kernel kills whose mark
 * points nowhere. */
static _Atomic(const empty_section *) made;

static const empty_section *make(void)
{
    const empty_section *none = NULL;
    empty_section *new =
        mmap(NULL, sizeof *new, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (new == MAP_FAILED) return NULL;
    new->signature = RSEQ_SIG;
    new->section.abort_ip = (uintptr_t)&new->behind;
    if (atomic_compare_exchange_strong(&made, &none, new)) return new;
    munmap(new, sizeof *new);
    return none;
}

static const empty_section *section(void)
{
    const empty_section *found = atomic_load_explicit(&made, memory_order_acquire);
    return found ? found : make();
}

static struct rseq *of_thread(void)
{
    return (struct rseq *)(void *)((char *)__builtin_thread_pointer() + __rseq_offset);
}

/* No two threads have the same stint, or a thread that follows an ended one might. */
static _Atomic uint64_t num_stints;
static _Thread_local uint64_t own_stint;

uint64_t pw_on_core_stint(void)
{
    const empty_section *mark = section();
    if (!mark || !__rseq_size) return 0;
    volatile uint64_t *word = (volatile uint64_t *)&of_thread()->rseq_cs;
    if (*word == (uintptr_t)&mark->section) return own_stint;
    *word = (uintptr_t)&mark->section;
    own_stint = atomic_fetch_add_explicit(&num_stints, 1, memory_order_relaxed) + 1;
    return own_stint;
}

#else

uint64_t pw_on_core_stint(void) { return 0; }

#endif
