/* Pages in page-in: the virtual time from which each is present. The host's memory has the page at
 * once; an access that arrives earlier in virtual time must still fault. The time may be an instant
 * of CPU work that can still move (native/cpu.h). Entries go when the transfer that brought them in
 * is over. Open addressing; grows by doubling. Not thread-safe. */
#ifndef PW_SMMU_PRESENCE_H
#define PW_SMMU_PRESENCE_H
#include "native/cpu.h"

typedef struct {
    uint64_t page; /* 0: empty (page 0 is never mapped) */
    pw_cpu_instant present;
    bool is_permission; /* until then the page's protection stops the access, not its absence */
} pw_presence_entry;

typedef struct {
    const pw_cpu *cpu; /* whose work the instants are of */
    pw_presence_entry *entries;
    uint32_t capacity, num_entries; /* capacity a power of two, or 0 before the first */
} pw_presence;

void pw_presence_init(pw_presence *table, const pw_cpu *cpu);
void pw_presence_destroy(pw_presence *table);
/* The page is present from then on; an earlier entry of the page is replaced. */
int pw_presence_add(pw_presence *table, uint64_t page, pw_cpu_instant present, bool is_permission);
/* The span is about to be closed: what is present by an instant of it is so by a time. */
void pw_presence_settle(pw_presence *table, uint64_t page, uint32_t span);
/* Present from when: a time, or INT64_MIN when the page is not in page-in. */
pw_time pw_presence_present_ns(const pw_presence *table, uint64_t page);
bool pw_presence_is_permission(const pw_presence *table, uint64_t page);
void pw_presence_forget(pw_presence *table, uint64_t first_page, uint64_t num_pages);
#endif
