/* PCIe ATS and PRI: shared virtual addressing. The device has an address translation cache (ATC). A
 * miss is a translation request to the IOMMU, for which the SMMU's TLBs and walkers stand. Where
 * the page is absent the device sends page requests, a group for what it needs; each is an entry of
 * the IOMMU's queue. A thread of the OS reads the queue, a handler brings the group's pages in and
 * answers for the group, and the device asks for the translation again. A group that the queue has
 * no room for is answered at once, and comes again.
 *
 * An access to send waits. For one to receive the rules say what the NI does meanwhile
 * (native/receiver.h). An invalidation waits for the IOMMU and for the device.
 *
 * Cannot: stop markers, several devices at one queue, translations of more than a page, requests
 * for what the device does not need yet. One NI, one thread at a time. */
#ifndef PW_SMMU_ATS_ATS_H
#define PW_SMMU_ATS_ATS_H
#include "smmu/unit.h"

#define PW_ATS_CACHE_WAYS 8
#define PW_ATS_CACHE_ENTRIES_MAX (1 << 20)
#define PW_ATS_GROUP_PAGES_MAX 512
#define PW_ATS_QUEUE_ENTRIES_MAX (1 << 19)
#define PW_ATS_HANDLERS_MAX 16

int pw_ats_create(const pw_unit_parts *parts, pw_translation_unit **out);
#endif
