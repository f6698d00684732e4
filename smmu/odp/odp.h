/* On-demand paging of NICs (ODP: InfiniBand; backup ring: Ethernet), and NP-RDMA. Translation units
 * whose page table is the NIC's own: the driver fills it when the NIC faults, and takes entries out
 * when the OS takes pages away. A fault is slow, since the NIC's firmware reports it and takes the
 * answer. An access to send waits for it. An access to receive cannot wait: the block is dropped,
 * its source is told that the receiver is not ready, and pauses (native/receiver.h). Hits and walks
 * of the table take what the SMMU's take (assumed).
 *
 * Backup ring: the same table and fault, on an Ethernet NIC. A block that cannot be written goes to
 * a ring of pinned buffers, where software finds it and copies it to its place when the page is in.
 * Without room there it is dropped without a word.
 *
 * NP-RDMA: RDMA without pinned memory on a NIC that cannot fault. The IOMMU maps what is in memory,
 * and follows the OS; everything else it maps to a signature page. What the NIC reads or writes
 * there is no data: software at the initiator notices by the page's version and asks software at
 * the other end, which brings the page in; then the block is sent again.
 *
 * Can: faults of one page or of a range, invalidation, prefetch. Cannot: answers foreseen, a limit
 * of the table. One NI, one thread at a time. */
#ifndef PW_SMMU_ODP_ODP_H
#define PW_SMMU_ODP_ODP_H
#include "native/page_leaves.h"
#include "smmu/unit.h"

/* The page table of a NIC with on-demand paging, apart from the OS's: which pages of which process
 * the NIC may use, from when on, and whether it may write them. */
typedef struct {
    pw_time ready_ns; /* it can be used from then on */
    bool is_writable;
    bool is_in; /* else there is no entry */
} pw_odp_entry;

/* Zero is an empty one. */
typedef struct {
    pw_page_leaves leaves;
    uint64_t num_entries, peak_entries;
} pw_odp_table;

void pw_odp_table_destroy(pw_odp_table *table);
/* The entry of a page, or NULL. */
const pw_odp_entry *pw_odp_table_find(const pw_odp_table *table, uint16_t pdid, uint64_t page);
/* Enter a page, or replace its entry. PW_ERR_NOMEM. */
int pw_odp_table_enter(pw_odp_table *table, uint16_t pdid, uint64_t page, pw_odp_entry entry);
/* Entries of a range go, of every process with pdid 0; how many there were. */
uint64_t pw_odp_table_drop(pw_odp_table *table, uint16_t pdid, uint64_t first_page,
                           uint64_t num_pages);

#define PW_ODP_FAULT_PAGES_MAX 1024

int pw_odp_create(const pw_unit_parts *parts, pw_translation_unit **out);
int pw_backup_ring_create(const pw_unit_parts *parts, pw_translation_unit **out);
int pw_np_create(const pw_unit_parts *parts, pw_translation_unit **out);

#endif
