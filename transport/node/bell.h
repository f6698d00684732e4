/* What a process rests at, in memory that its peers map too: a word that says what they shall ring
 * for, and that the kernel wakes sleepers at (a futex). Whoever wants to rest announces it, looks
 * once more at all that may have come, and only then waits; a peer makes what it has visible, and
 * only then looks at the word. With a full fence on either side one of the two sees the other, so
 * no ring is lost; every rest has a limit nevertheless, for peers that are stopped or gone. The
 * word is shared with other processes: nonsense in it costs needless rings or rests to the limit.
 * Any thread, any time. */
#ifndef PW_NODE_BELL_H
#define PW_NODE_BELL_H
#include <stdatomic.h>

#include "native/types.h"

#define PW_BELL_ARRIVAL 1u /* something for the resting node */
#define PW_BELL_ROOM 2u    /* a slot that it may write to */

/* From now on the bell is rung for these calls. */
void pw_bell_announce(uint32_t *bell, uint32_t calls);
/* Sleep until it rings, but no longer than limit_ns; not at all when it has rung since. */
void pw_bell_wait(uint32_t *bell, uint32_t calls, int64_t limit_ns);
/* Nobody rests or is about to. */
void pw_bell_withdraw(uint32_t *bell);
/* Wake all that rest; costs a system call when one does. */
void pw_bell_wake(uint32_t *bell);

static inline bool pw_bell_is_set(const uint32_t *bell, uint32_t call)
{
    return __atomic_load_n(bell, __ATOMIC_RELAXED) & call;
}

/* The caller has made visible what the call is about. */
static inline void pw_bell_ring(uint32_t *bell, uint32_t call)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (pw_bell_is_set(bell, call)) pw_bell_wake(bell);
}
#endif
