/* Memory regions: the NI translates virtual addresses, so that a registration pins and touches
 * nothing; it gives the key with which peers read. Writes have no key, as on the machine: mapping
 * and protection domain guard them. Atomic operations are checked against the region. */
#ifndef PW_FABRIC_REGION_H
#define PW_FABRIC_REGION_H
#include "transport/fabric/objects.h"

extern struct fi_ops_mr pw_fi_region_ops;

/* The region of that key which holds the range and allows the access, NULL: none does. */
const pw_fi_region *pw_fi_region_find(const pw_fi_process *process, uint64_t key, uint64_t address,
                                      uint64_t num_bytes, uint64_t access);
#endif
