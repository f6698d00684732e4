/* Mappings of this process, as its kernel was asked for them last (PROCMAP_QUERY, Linux 6.11). Kept
 * from one pw_memory_enter to the next where the program announces itself so, else not at all.
 * Not thread-safe. */
#ifndef PW_NATIVE_MAPPINGS_H
#define PW_NATIVE_MAPPINGS_H
#include "native/memory.h"

#define PW_MAPPINGS_KEPT 4 /* a transfer in each direction, and notifications */

typedef struct {
    uint64_t first_page, end_page;
    uint64_t flags; /* VMA_*: procmap.h */
    bool is_file;   /* or shared anonymous memory */
} pw_mapping;

typedef struct {
    pw_mapping kept[PW_MAPPINGS_KEPT];
    uint32_t num_kept, next_slot;
    uint64_t entry, generation; /* of the memory, for which these count */
} pw_mappings;

/* The mapping that holds the page, or else the first one behind it. PW_ERR_ADDRESS: there is none;
 * PW_ERR_HOST. memory->maps must be open. */
int pw_mappings_find(pw_memory *memory, uint64_t page, pw_mapping *out);
/* The caller may come from the program, which has not announced itself. */
static inline void pw_mappings_forget(pw_mappings *mappings)
{
    mappings->num_kept = mappings->next_slot = 0;
}
#endif
