/* Memory strategies that leave absent pages to the NI. `part`, `part-prefetch` and `ideal` do
 * nothing themselves: with the first pages fault at the NI and are brought in (PART), with the
 * second the driver is told of a message's destination too when it is matched, with the third the
 * engine never lets a mapped page fault. */
#include "node/strategies/strategy_pages.h"

static int acquire(void *self, pw_span span, int access, pw_lease *out)
{
    (void)self, (void)access;
    *out = (pw_lease){.span = span};
    return PW_OK;
}

const pw_strategy_ops pw_strategy_part = {
    .name = "part",
    .summary = "let pages fault; the driver pages in and the ERR resumes the block (PART)",
    .acquire = acquire,
};

static int create_advising(pw_strategy_context *context, void **self)
{
    (void)self;
    context->advises = true;
    return PW_OK;
}

const pw_strategy_ops pw_strategy_part_prefetch = {
    .name = "part-prefetch",
    .summary = "PART, and the receiver's driver pages in while the request travels",
    .create = create_advising,
    .acquire = acquire,
};

const pw_strategy_ops pw_strategy_ideal = {
    .name = "ideal",
    .summary = "accesses never fault, at no extra cost",
    .acquire = acquire,
};

/* Memory strategy `odp`: on-demand paging of an InfiniBand NIC. It does nothing itself: the NIC has
 * a page table of its own and faults (odp/). */

static int create_odp(pw_strategy_context *context, void **self)
{
    (void)self;
    context->advises = context->settings->odp_prefetch;
    return PW_OK;
}

const pw_strategy_ops pw_strategy_odp = {
    .name = "odp",
    .summary = "on-demand paging: the NIC's own page table, receiver not ready, go-back-N",
    .create = create_odp,
    .acquire = acquire,
    .unit = PW_TRANSLATION_ODP,
};

/* Memory strategy `np-rdma`: before a transfer's end is believed software compares the versions of
 * its pages; what went to the signature page is asked for again (smmu/odp/odp.h). */

static int acquire_checked(void *self, pw_span span, int access, pw_lease *out)
{
    const pw_strategy_context *context = self;
    (void)access;
    *out = (pw_lease){.span = span, .cost.touch_ns = context->costs->np_check_ns};
    return PW_OK;
}

const pw_strategy_ops pw_strategy_np_rdma = {
    .name = "np-rdma",
    .summary = "no faults: absent pages are a signature page, software notices and asks again",
    .acquire = acquire_checked,
    .unit = PW_TRANSLATION_NP,
};

/* Memory strategies `ats` and `backup-ring`: the NIC meets absent pages by itself (smmu/ats/ats.h,
 * smmu/odp/odp.h). */

const pw_strategy_ops pw_strategy_ats = {
    .name = "ats",
    .summary = "PCIe ATS and PRI: the device asks the IOMMU for translations, the OS for pages",
    .acquire = acquire,
    .unit = PW_TRANSLATION_ATS,
};

const pw_strategy_ops pw_strategy_backup_ring = {
    .name = "backup-ring",
    .summary = "on-demand paging of an Ethernet NIC: blocks for absent pages go to a pinned ring",
    .create = create_odp,
    .acquire = acquire,
    .unit = PW_TRANSLATION_BACKUP_RING,
};
