/* miNI: the NIC's memory as a cache of host tables [MINI 3]. A translation unit with two caches on
 * the NIC, of virtual-memory handles (VMH: process and page) and of communication-buffer handles
 * (CBH: process and buffer), and their tables in host memory. A miss raises an interrupt; the
 * handler puts it in the miss queue and wakes a kernel thread, since pages cannot be pinned in an
 * interrupt; the thread finds or pins a line of pages and fills the slot, which is reserved until
 * then. A packet that misses on arrival is dropped without an answer and comes again by its
 * source's timer; a request that misses on sending waits.
 *
 * Can: lines of several pages, sets, ways, locks of lines in use, water marks, unknown buffers
 * filled as invalid, misses in the time of component costs or of measured distributions. Cannot:
 * page faults (all that the NIC knows is pinned), answers foreseen. One NI, one thread at a time.
 */
#ifndef PW_MINI_MINI_H
#define PW_MINI_MINI_H
#include "mini/vmh_table.h"
#include "native/calendar.h"
#include "native/costs.h"
#include "native/counters.h"
#include "native/settings.h"
#include "translation/unit.h"

#define PW_MINI_PROCESSES_MAX 128
#define PW_VMH_ENTRIES_MAX (1 << 20) /* of either cache */
#define PW_MINI_BUFFER_BITS 20       /* of its id, which a key holds among 64 bits */

/* Process handles that the NIC knows. */
typedef struct {
    uint16_t pdids[PW_MINI_PROCESSES_MAX];
    uint32_t num_open, max_open;
} pw_mini_processes;

int pw_mini_processes_open(pw_mini_processes *processes, uint16_t pdid);
bool pw_mini_processes_has(const pw_mini_processes *processes, uint16_t pdid);

typedef struct {
    pw_translation_unit base;
    const pw_costs *costs;
    const pw_settings *settings;
    pw_counters *counters;
    pw_mini_processes processes;
    uint32_t line_shift; /* pages of a VMH line, as a power of two */
    pw_line_cache vmh, cbh;
    pw_vmh_table table;
    pw_calendar thread; /* the kernel thread works off one miss after the other */
    pw_time checked_ns; /* the table's water mark, last */
} pw_mini;

int pw_mini_init(pw_mini *mini, const pw_costs *costs, const pw_settings *settings,
                 pw_counters *counters, pw_memory *memory);
void pw_mini_destroy(pw_mini *mini);

/* What the kernel allows of a page, by a fresh walk of its state; PW_OK or why no access can be
 * done. */
int pw_mini_allows(int state);
#endif
