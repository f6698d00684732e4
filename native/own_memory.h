/* Memory of the emulator's own, apart from the program's.
 *
 * Pools grow when frames arrive, so when this host's load has it. If they grew in the C library's
 * heap, what the program allocates next would lie elsewhere in each run; and blocks are cut, pages
 * touched and TLB sets chosen by address. So small memory comes from a range that is reserved in
 * one piece; large memory, which is made at the start, and all memory once the ranges are full,
 * from the C library.
 *
 * Any thread; a lock is held for some ns, also while the process forks. */
#ifndef PW_NATIVE_OWN_MEMORY_H
#define PW_NATIVE_OWN_MEMORY_H
#include <stdbool.h>
#include <stddef.h>

/* Longest memory that comes from here, its header included. */
#define PW_OWN_BYTES_MAX ((size_t)1 << 20)

/* NULL: longer than that, or full; a power of two as alignment. Not zeroed. */
void *pw_own_allocate(size_t num_bytes, size_t alignment);
bool pw_own_is_ours(const void *memory);
/* What fits where a block of ours lies. */
size_t pw_own_room(const void *memory);
void pw_own_release(void *memory);
/* Of a process that will hold much: its translations, of pages of 4 KB, would not fit in the CPU's
 * TLBs. Where the kernel gives them. */
void pw_own_use_huge_pages(void);
#endif
