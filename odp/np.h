/* NP-RDMA: RDMA without pinned memory on a NIC that cannot fault. The IOMMU maps what is in memory,
 * and follows the OS; everything else it maps to a signature page. What the NIC reads or writes
 * there is no data: software at the initiator notices by the page's version and asks software at
 * the other end, which brings the page in; then the block is sent again. Not thread-safe. */
#ifndef PW_ODP_NP_H
#define PW_ODP_NP_H
#include "odp/odp.h"

/* pw_translation_ops.access of that NIC. */
void pw_np_access(pw_translation_unit *base, pw_residency *residency, const pw_access *access,
                  pw_access_result *result);
#endif
