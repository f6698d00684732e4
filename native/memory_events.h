/* What this process does to its own mappings: unmap, remap, brk, madvise, those inside of free()
 * too, and fork. UCX's libucm tells, which patches the C library's functions; mprotect, of which it
 * does not tell, is patched here the same way. What is done by system calls of the program's own is
 * not seen. Process-wide: events of any thread, kept until PW_MEMORY_EVENTS_KEPT others have come.
 */
#ifndef PW_NATIVE_MEMORY_EVENTS_H
#define PW_NATIVE_MEMORY_EVENTS_H
#include "native/types.h"

#define PW_MEMORY_EVENTS_KEPT 256u

/* Begin to listen, once for the process. NULL, or why it cannot be, a sentence. */
const char *pw_memory_events_begin(void);
/* Is mprotect seen? */
bool pw_memory_events_tell_protection(void);
/* Did the process do what lets the kernel take pages later, without a word (MADV_FREE, KSM)? */
bool pw_memory_events_are_vain(void);
/* How many there were. A caller that has seen so many and asks for the next gets its pages; all of
 * them where it is no longer kept. */
uint64_t pw_memory_events_count(void);
void pw_memory_events_read(uint64_t *num_seen, uint64_t *first_page, uint64_t *end_page);
#endif
