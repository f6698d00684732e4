/* Every setting of a run: name, default, help; kind, the field of pw_node_config that it sets,
 * limits. C reads texts by these rows; Python makes its configuration, its checks, `pagewire info`,
 * the docs' tables and the schemas of them. A new setting is a row here and a field of the struct.
 */
#include "node/settings/setting_rows.h"
#include "native/memory.h"
#include "ni/packetizer.h"
#include "node/messages/messages.h"
#include "node/settings/config.h"
#include <string.h>

#define KIND(name) .kind = PW_KIND_##name
#define CHOICES(...) \
    .choices = (const pw_setting_choice[]) { __VA_ARGS__, {NULL, 0} }
#define MEANINGS(...) \
    .meanings = (const char *const[]) { __VA_ARGS__ }
#define LIMITS(low, high) .min = low, .max = high
#define NONE_IS(number) .takes_none = 1, .none = number
#define ENGINE(field) .offset = offsetof(pw_node_config, settings.field)
#define RUN(field) .offset = offsetof(pw_node_config, run.field)
/* Fields of the engine, with their limits. */
#define FLAG(field) KIND(BOOL), ENGINE(field)
#define NUMBER(field, low, high) KIND(NUMBER), ENGINE(field), LIMITS(low, high)
#define COUNT(field, of, low, high) NUMBER(field, low, high), .unit = of
#define SIZE(field, low, high) KIND(SIZE), ENGINE(field), LIMITS(low, high)
#define DURATION(field, low, high) KIND(DURATION), ENGINE(field), LIMITS(low, high)
#define FRACTION(field) KIND(FRACTION), ENGINE(field), LIMITS(0, MILLION)
#define CHOICE(field, ...) KIND(CHOICE), ENGINE(field), CHOICES(__VA_ARGS__)
#define SITE(name) KIND(SITE), .offset = offsetof(pw_node_config, impairments[PW_IMPAIRMENT_##name])
#define OR_SITE "; num:denom:seed or num:denom:seed:limit"
/* How late what fails there is. */
#define LATE(name)                       \
    KIND(DURATION), LIMITS(0, 3600 * S), \
        .offset = offsetof(pw_node_config, impairments[PW_IMPAIRMENT_##name].amount_ns)
#define NO_FIELD .offset = PW_NO_FIELD
/* Keeps the text, too or only. */
#define KEPT(field)                                     \
    .text_offset = offsetof(pw_node_config, run.field), \
    .text_bytes = sizeof(((pw_node_config *)NULL)->run.field)

#define MILLION INT64_C(1000000)
#define US INT64_C(1000)
#define MS (1000 * US)
#define S (1000 * MS)
#define KIB INT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define TIB (1024 * GIB)

static const pw_setting_row rows[] = {
    /* [run] */
    {"run.memory", "part", "what is done about absent pages", KIND(STRATEGY), ENGINE(ideal),
     KEPT(memory), .takes_class = 1},
    {"run.policy", "page", "pages brought in for a fault", KIND(CHOICE), ENGINE(policy),
     KEPT(policy), .takes_class = 1, .class_number = PW_POLICY_HOST,
     CHOICES({"page", PW_POLICY_PAGE}, {"block", PW_POLICY_BLOCK}, {"all", PW_POLICY_ALL}),
     MEANINGS("the faulting page", "the rest of the block", "the rest of the transfer")},
    {"run.err", "true", "send the ERR (retransmit request) when a block's pages are in",
     FLAG(err_enabled)},
    {"run.timeout", "1ms",
     "time after which a block without acknowledgement is sent again, or none",
     DURATION(timeout_ns, 1 * US, 3600 * S), NONE_IS(-1)},
    {"run.nack_cancels_timer", "false",
     "a page-fault NACK stops the block's timer, so that only the ERR resumes it (NTO)",
     FLAG(nack_cancels_timer)},
    {"run.eager_limit", "64B",
     "longest message that travels inside its envelope instead of by RDMA",
     SIZE(eager_limit_bytes, 0, PW_MESSAGE_EAGER_MAX_BYTES)},
    {"run.compute", "measured",
     "time between MPI calls: measured: thread's CPU time; replay: recorded by an earlier run; "
     "model: declared by the program; none: zero",
     KIND(CHOICE), RUN(compute),
     CHOICES({"measured", PW_COMPUTE_MEASURED}, {"replay", PW_COMPUTE_REPLAY},
             {"model", PW_COMPUTE_MODEL}, {"none", PW_COMPUTE_NONE})},
    {"run.compute_scale", "1.0", "factor on compute time, measured or replayed", KIND(FACTOR),
     RUN(compute_scale), LIMITS(0, INT64_C(1000000) * MILLION)},
    {"run.compute_record", "", "file that each rank writes its compute durations to (FILE.<rank>)",
     KIND(PATH), NO_FIELD, KEPT(compute_record), .is_of_run = 1},
    {"run.compute_replay", "", "file that compute = replay reads them from (FILE.<rank>)",
     KIND(PATH), NO_FIELD, KEPT(compute_replay), .is_of_run = 1},
    {"run.wtime", "virtual", "clock behind MPI.Wtime()", KIND(CHOICE), RUN(wtime),
     CHOICES({"virtual", PW_WTIME_VIRTUAL}, {"wall", PW_WTIME_WALL}), .is_of_run = 1},
    {"run.clocks", "host",
     "clock_gettime, gettimeofday, time and sleeps of a program over the fabric: host: this "
     "host's, where a sleep takes as long and lets as much virtual time pass; virtual: as "
     "MPI_Wtime, for programs that time themselves",
     KIND(CHOICE), RUN(clocks), CHOICES({"host", PW_CLOCKS_HOST}, {"virtual", PW_CLOCKS_VIRTUAL}),
     .is_of_run = 1},
    {"run.translation", "smmu",
     "what translates the NI's accesses: smmu: page-table walks; mini: caches on the NIC of tables "
     "in host memory, which pins; static: all tables on the NIC",
     CHOICE(translation, {"smmu", PW_TRANSLATION_SMMU}, {"mini", PW_TRANSLATION_MINI},
            {"static", PW_TRANSLATION_STATIC})},
    {"run.platform", "exanest-qfdb", "name or path (.toml) of the platform file", KIND(PLATFORM),
     NO_FIELD, KEPT(platform)},
    {"run.ranks_per_node", "1",
     "ranks in a row that share a node: its place in the network, its NI's engines, R5, TLBs, "
     "walkers and FIFO, and the driver's core; in a replay (docs/network.md)",
     KIND(NUMBER), RUN(ranks_per_node), LIMITS(1, 1024)},
    {"run.huge_pages", "never",
     "transparent huge pages: never: off for the process; host: as the system is set", KIND(CHOICE),
     RUN(huge_pages), CHOICES({"never", PW_HUGE_PAGES_NEVER}, {"host", PW_HUGE_PAGES_HOST}),
     .is_of_run = 1},
    {"run.strict", "false", "end with an error at the first MPI call that the NI does not carry",
     KIND(BOOL), RUN(strict), .is_of_run = 1},
    {"run.watchdog", "60s",
     "wall time without any event after which a rank that waits says what it waits for, or none",
     KIND(DURATION), RUN(watchdog_ns), LIMITS(1 * MS, 3600 * S), NONE_IS(-1), .is_of_run = 1},
    {"run.transport", "facade",
     "what puts the NI under a program: facade: mpi4py's methods replaced; fabric: a libfabric "
     "provider below the MPI library, for any program",
     KIND(CHOICE), RUN(transport),
     CHOICES({"facade", PW_TRANSPORT_FACADE}, {"fabric", PW_TRANSPORT_FABRIC}), .is_of_run = 1},
    {"run.mpi", "auto",
     "which MPI starts the ranks: auto: the one that the program loads, or one of its ABI; mpich, "
     "openmpi, or the path of another mpiexec",
     KIND(TEXT), NO_FIELD, .is_of_run = 1},
    {"run.hosts", "",
     "hosts that mpiexec starts the ranks on, separated by commas, HOST or HOST:RANKS; they fill "
     "up in order; empty: this one, or what a batch system gives",
     KIND(TEXT), NO_FIELD, .is_of_run = 1},
    {"run.mpiexec_options", "",
     "further options of mpiexec, words as a shell reads them, e.g. '-iface eth1'", KIND(TEXT),
     NO_FIELD, .is_of_run = 1},
    {"run.wire", "auto",
     "what carries the NIs' frames: auto: shared memory between ranks of one host, else MPI "
     "(facade) or libfabric's tcp (fabric); mpi: MPI messages alone; shm: libfabric's shm instead "
     "of our shared memory; tcp: that alone; virtual times are the same",
     KIND(CHOICE), RUN(wire),
     CHOICES({"auto", PW_CARRIER_AUTO}, {"mpi", PW_CARRIER_MPI}, {"shm", PW_CARRIER_SHM},
             {"tcp", PW_CARRIER_TCP}),
     .is_of_run = 1},
    {"run.wire_interface", "",
     "network interface, by name or address, that tcp takes between the hosts of a run over the "
     "fabric; empty: the first",
     KIND(TEXT), NO_FIELD, KEPT(wire_interface), .is_of_run = 1},
    {"run.hash_received", "false",
     "report a hash of the bytes that arrived by RDMA: two runs in which the same messages "
     "arrived, in whatever order, have the same; `pagewire compare` turns it on",
     FLAG(hash_received)},
    {"run.quiet", "false", "print no report when the run ends", KIND(BOOL), RUN(quiet),
     .is_of_run = 1},
    {"run.json", "", "write the report to this file as JSON", KIND(PATH), NO_FIELD, KEPT(json),
     .is_of_run = 1},
    {"run.record", "",
     "record what the program does, for pagewire replay: to this file, each rank to FILE.<rank>",
     KIND(PATH), NO_FIELD, KEPT(record), .is_of_run = 1},
    {"run.trace", "", "write the run's timeline to this file, for ui.perfetto.dev", KIND(PATH),
     NO_FIELD, KEPT(trace), .is_of_run = 1},
    {"run.html", "", "write the report to this file as a page for a browser", KIND(PATH), NO_FIELD,
     KEPT(html), .is_of_run = 1},

    /* [strategy] */
    {"strategy.locked_limit", "none",
     "memory that a strategy may pin on a node before it is refused; the kernel of PART gave an "
     "unprivileged user 64 KiB; none: this host's limit (ulimit -l) alone",
     SIZE(locked_limit_bytes, 4 * KIB, 1024 * TIB), NONE_IS(-1)},
    {"strategy.check_mappings", "true",
     "ask before each use of what pin-cache, utlb and pretouch-once keep whether its mapping is "
     "still there; false: transfers of the first two go astray as on real hardware, and are "
     "counted",
     FLAG(strategy_checks_mappings)},
    {"strategy.touch_below", "2MiB",
     "hybrid: buffers below this size are touched, others left to fault; experiment part-hybrid "
     "finds the best (assumed: where part-fig12's lines of touch and PIA cross)",
     SIZE(touch_below_bytes, 0, 1024 * TIB)},
    {"strategy.pin_cache_limit", "64MiB",
     "pin-cache: memory that stays pinned between transfers, or none for no limit",
     SIZE(pin_cache_limit_bytes, 4 * KIB, 1024 * TIB), NONE_IS(-1)},
    {"strategy.pin_cache_limit_regions", "1024",
     "pin-cache: regions that stay pinned between transfers; neighbours are one",
     COUNT(pin_cache_limit_regions, "regions", 1, 1 * MIB)},
    {"strategy.piece", "64KiB",
     "bounce and pin-rendezvous: a message goes in pieces of this size; for bounce also the size "
     "of a buffer",
     SIZE(piece_bytes, 4 * KIB, 1 * GIB), .power_of_two = 1},
    {"strategy.bounce_buffers", "16",
     "bounce: buffers that are pinned from the start, half of them for what is sent",
     COUNT(bounce_buffers, "buffers", 2, 4096)},
    {"strategy.utlb_limit", "64MiB",
     "utlb: memory that stays pinned between transfers, or none for no limit",
     SIZE(utlb_limit_bytes, 4 * KIB, 1024 * TIB), NONE_IS(-1)},
    {"strategy.utlb_cache_entries", "8192",
     "utlb: entries of the NIC's cache of the table (assumed: the least of miNI's sizes)",
     COUNT(utlb_cache_entries, "entries", 1, 1 * MIB), .power_of_two = 1},
    {"strategy.utlb_fetch_entries", "8",
     "utlb: entries that a miss in it reads at once: the page's and those behind it, as far as the "
     "transfer goes",
     COUNT(utlb_fetch_entries, "entries", 1, 64)},
    {"strategy.firehose_limit", "64MiB",
     "firehose: memory of a node that its peers may hold pinned; each gets the same part of it",
     SIZE(firehose_limit_bytes, 4 * KIB, 1024 * TIB)},
    {"strategy.firehose_victims", "16MiB",
     "firehose: memory that stays pinned although no peer holds it and no transfer uses it",
     SIZE(firehose_victims_bytes, 0, 1024 * TIB)},

    /* [memory_backend] */
    {"memory_backend.backend", "host",
     "host: mincore and madvise of the process's own pages; model: seeded software page table",
     CHOICE(memory_backend, {"host", PW_MEMORY_HOST}, {"model", PW_MEMORY_MODEL})},
    {"memory_backend.seed", "1", "seed of the model's random draws",
     NUMBER(model_seed, 0, INT64_MAX)},
    {"memory_backend.fault_fraction", "0.0",
     "model: probability that a page is absent when a transfer first meets it",
     FRACTION(model_fault_millionths)},
    {"memory_backend.frame_limit_pages", "0",
     "model: frames before the least recently used page is evicted; 0 for no limit",
     COUNT(model_frame_limit_pages, "pages", 0, 1 * TIB)},
    {"memory_backend.huge_pages", "false",
     "model: every aligned 2 MB is one huge page until a part of it is taken away",
     FLAG(model_huge_pages)},
    {"memory_backend.collapse_fraction", "0.0",
     "model: probability that a transfer finds 2 MB of its resident pages just collapsed into a "
     "huge page, their translations gone",
     FRACTION(model_collapse_millionths)},

    /* [residency] */
    {"residency.source", "events",
     "who tells whether a page of the host is there. events: a page that was there stays so until "
     "the process unmaps it or forks, as libucm tells (kernel where that cannot be); kernel: it is "
     "asked for each access",
     CHOICE(residency_source, {"kernel", PW_RESIDENCY_KERNEL}, {"events", PW_RESIDENCY_EVENTS})},
    {"residency.check", "false",
     "events: ask the kernel beside, and end the run where it says otherwise",
     FLAG(residency_check)},

    /* [smmu] */
    {"smmu.num_context_banks", "16",
     "context banks, one for each process; without one: NACK 3 (the R5's scratchpad serves 16)",
     COUNT(num_context_banks, "banks", 1, 128)},
    {"smmu.l1_sets", "1", "sets of the L1 TLB; 1 is fully associative",
     COUNT(l1_sets, "sets", 1, 65536), .power_of_two = 1},
    {"smmu.l1_ways", "128", "ways of the L1 TLB", COUNT(l1_ways, "ways", 1, 1024)},
    {"smmu.l2_sets", "512", "sets of the L2 TLB", COUNT(l2_sets, "sets", 1, 65536),
     .power_of_two = 1},
    {"smmu.l2_ways", "4", "ways of the L2 TLB", COUNT(l2_ways, "ways", 1, 1024)},
    {"smmu.line_pages", "1", "pages that one TLB line translates",
     COUNT(tlb_line_pages, "pages", 1, 128), .power_of_two = 1},
    {"smmu.walk_cache_entries", "64",
     "entries of the walk cache (upper-level page tables, LRU); 0 for none (64 is assumed: the "
     "sources give no size)",
     COUNT(walk_cache_entries, "entries", 0, 1024)},
    {"smmu.prefetch_entries", "0",
     "entries of the prefetch buffer, which walks the next page beside each walk; 0 for none "
     "(Linux turns the MMU-500's prefetcher off)",
     COUNT(prefetch_entries, "entries", 0, 1024)},
    {"smmu.parallel_walks", "16", "page-table walks at a time; one more waits",
     COUNT(parallel_walks, "walks", 1, 16)},
    {"smmu.outstanding_accesses", "256",
     "accesses that can wait in the SMMU at a time; one more holds up the NI",
     COUNT(outstanding_accesses, "accesses", 1, 256)},
    {"smmu.invalidate", "address",
     "what the OS drops from the TLBs when it changes a mapping: the pages that changed (the finer "
     "way of the specification), all of the process (context), or everything [PART 4.3]",
     CHOICE(invalidate, {"address", PW_INVALIDATE_ADDRESS}, {"context", PW_INVALIDATE_CONTEXT},
            {"all", PW_INVALIDATE_ALL})},
    {"smmu.hupcf", "1",
     "hit under previous context fault: 1 processes later accesses on their own; 0 terminates, or "
     "stalls, every access of the bank while a fault is active",
     NUMBER(hupcf, 0, 1)},
    {"smmu.mode", "terminate",
     "what happens to a faulting access: terminate: it is not done, and the NI sends a NACK; "
     "stall: it waits until the driver has paged in and writes RESUME",
     CHOICE(stall, {"terminate", 0}, {"stall", 1})},

    /* [mini] */
    {"mini.processes", "8", "processes of a node that the NIC knows, in mini and static",
     COUNT(mini_processes, "processes", 1, 128)},
    {"mini.vmh_entries", "16384", "entries of the VMH cache: translations of pages",
     COUNT(vmh_entries, "entries", 2, 1 * MIB), .power_of_two = 1},
    {"mini.vmh_line_pages", "64", "entries of a line of it, filled together and aligned",
     COUNT(vmh_line_pages, "pages", 1, 128), .power_of_two = 1},
    {"mini.vmh_ways", "4",
     "ways of it; at least two, since a line that a DMA uses cannot be replaced",
     COUNT(vmh_ways, "ways", 2, 1024), .power_of_two = 1},
    {"mini.cbh_entries", "1024",
     "entries of the CBH cache: registered buffers (assumed: the thesis leaves its size open)",
     COUNT(cbh_entries, "entries", 2, 1 * MIB), .power_of_two = 1},
    {"mini.cbh_ways", "4", "ways of it", COUNT(cbh_ways, "ways", 2, 1024), .power_of_two = 1},
    {"mini.high_water_pages", "0",
     "pinned pages at which the driver unpins; 0: it never does of itself",
     COUNT(vmh_high_pages, "pages", 0, 1 * TIB)},
    {"mini.low_water_pages", "0",
     "pinned pages at which it stops, or that it comes to when nothing more can be pinned",
     COUNT(vmh_low_pages, "pages", 0, 1 * TIB)},
    {"mini.water_period", "10ms",
     "time between two looks at the high water mark (10 ms are assumed)",
     DURATION(vmh_check_ns, 1, 3600 * S)},
    {"mini.order", "node",
     "what happens behind a block that is dropped or damaged, or came in part: node: every later "
     "one from that node is dropped too until it has come, as in VMMC; block: nothing",
     CHOICE(keeps_order, {"node", 1}, {"block", 0})},
    {"mini.miss_times", "platform",
     "how long the host takes for a miss: platform: component costs; else drawn from what the "
     "thesis measured with that application",
     CHOICE(miss_times, {"platform", PW_MISS_TIMES_PLATFORM},
            {"water-nsquared", PW_MISS_TIMES_WATER_NSQUARED},
            {"water-spatial", PW_MISS_TIMES_WATER_SPATIAL}, {"fft", PW_MISS_TIMES_FFT},
            {"radix", PW_MISS_TIMES_RADIX}, {"lu", PW_MISS_TIMES_LU},
            {"ocean", PW_MISS_TIMES_OCEAN}, {"volrend", PW_MISS_TIMES_VOLREND},
            {"raytrace", PW_MISS_TIMES_RAYTRACE})},
    {"mini.static_pages", "131072",
     "entries of the table of pages in static: 512 MB can be registered",
     COUNT(static_pages, "pages", 1, 1 * TIB)},
    {"mini.static_buffers", "1024", "entries of the table of buffers in static",
     COUNT(static_buffers, "buffers", 1, 1 * MIB)},
    {"mini.memory", "2MiB", "memory of the NIC, in mini and static; what does not fit is refused",
     SIZE(nic_memory_bytes, 1 * KIB, 1024 * TIB)},

    /* [odp] */
    {"odp.rnr_timer", "640us",
     "time that a source pauses a transfer whose destination is not ready; InfiniBand has steps "
     "from 10 us to 655.36 ms, of which 640 us is number 12",
     DURATION(odp_rnr_ns, 1 * US, 3600 * S)},
    {"odp.fault_pages", "1024",
     "pages at most that a fault brings in, from the faulting one to the end of its transfer; mlx5 "
     "stops at 4 MiB",
     COUNT(odp_fault_pages, "pages", 1, 1024)},
    {"odp.prefetch", "false",
     "the receiver's library advises the driver of a message's destination when it is matched "
     "(ibv_advise_mr)",
     FLAG(odp_prefetch)},
    {"odp.backup_blocks", "64",
     "backup-ring: blocks that its ring of pinned buffers holds (assumed: 1 MiB of 16 KiB); 0: "
     "none, and what arrives for an absent page is dropped",
     COUNT(odp_backup_blocks, "blocks", 0, 256)},

    /* [ats] */
    {"ats.cache_entries", "1024",
     "translations that the device caches, in sets of eight (assumed: no NIC's is published)",
     COUNT(ats_cache_entries, "entries", 1, 1 * MIB), .power_of_two = 1},
    {"ats.group_pages", "4",
     "pages that a page request group asks for at most, from the absent one to the end of its "
     "transfer (assumed: those of a block)",
     COUNT(ats_group_pages, "pages", 1, 512)},
    {"ats.outstanding", "32",
     "page requests of the device that are not answered yet, at most: Outstanding Page Request "
     "Allocation, 32 in Linux for AMD's IOMMU",
     COUNT(ats_outstanding, "requests", 1, 256)},
    {"ats.queue_entries", "2048",
     "entries of the IOMMU's page request queue, 2048 in Linux for VT-d since 2022; a group that "
     "finds no room is answered at once, and comes again",
     COUNT(ats_queue_entries, "entries", 1, 512 * KIB)},
    {"ats.handlers", "4",
     "threads of the OS that bring the pages of groups in (assumed: one a core)",
     COUNT(ats_handlers, "threads", 1, 16)},
    {"ats.while_pending", "buffer",
     "what the receiver does with a block whose page was asked for: buffer: keeps it in its own "
     "memory; pause: keeps it in the receive engine, which takes nothing else; drop: the source's "
     "timer brings it again",
     CHOICE(ats_while_pending, {"buffer", PW_PENDING_BUFFER}, {"pause", PW_PENDING_PAUSE},
            {"drop", PW_PENDING_DROP})},
    {"ats.buffer_blocks", "64",
     "blocks that the receiver's buffer holds while their pages come (assumed: 1 MiB of 16 KiB); "
     "more are dropped",
     COUNT(ats_buffer_blocks, "blocks", 0, 256)},

    /* [driver] */
    {"driver.variant", "part",
     "part: each unique page is resolved by itself [PART 4.4, 5.2]; psi: pages that the last two "
     "transactions brought in are skipped [PSI 3.2, 4]",
     CHOICE(driver_variant, {"part", PW_DRIVER_PART}, {"psi", PW_DRIVER_PSI})},
    {"driver.fsr_cleared_by", "handler",
     "who writes FSR back: the interrupt handler [PART 4.4], or the tasklet at the end of its run "
     "(assumed); faults before that only set MULTI",
     CHOICE(fsr_cleared_by, {"handler", PW_FSR_CLEARED_BY_HANDLER},
            {"tasklet", PW_FSR_CLEARED_BY_TASKLET})},
    {"driver.page_in", "touch-ahead",
     "touch-ahead: the tasklet calls get_user_pages; touch-a-page: it sends a Netlink message for "
     "each page, and the library thread touches it (at the source: one page a fault)",
     CHOICE(page_in, {"touch-ahead", PW_PAGE_IN_TOUCH_AHEAD},
            {"touch-a-page", PW_PAGE_IN_TOUCH_A_PAGE})},
    {"driver.touch_ahead_pages", "4",
     "most pages that get_user_pages brings in for a fault at the source",
     COUNT(touch_ahead_pages, "pages", 1, 4)},
    {"driver.entries_per_tasklet_run", "8",
     "most NI FIFO entries that one tasklet run reads: 16 reads [PART 5.2], two an entry [PSI "
     "3.2.3]",
     COUNT(tasklet_entries, "entries", 1, 512)},
    {"driver.err_by", "library", "who sends ERRs", KIND(CHOICE), ENGINE(err_by), KEPT(err_by),
     .takes_class = 1, .class_number = PW_ERRS_BY_HOST,
     CHOICES({"library", PW_ERRS_BY_LIBRARY}, {"kernel", PW_ERRS_BY_KERNEL}),
     MEANINGS("its thread, which a Netlink message wakes up",
              "the tasklet, without message and wake-up [PSI 5.2 (1); PART, footnote 3]")},
    {"driver.err_after", "run",
     "what the ERR waits for: run: the page-in of all that is asked for, and by kernel the end of "
     "the tasklet's run; block: the pages of the block; page: the page that faulted [PART 3.3]",
     CHOICE(err_after, {"run", PW_ERRS_AFTER_RUN}, {"block", PW_ERRS_AFTER_BLOCK},
            {"page", PW_ERRS_AFTER_PAGE})},
    {"driver.library_core", "same",
     "where the library thread runs: same: on the tasklet's core, after it; other: on another "
     "core, as soon as the message is sent",
     CHOICE(library_core, {"same", PW_LIBRARY_CORE_SAME}, {"other", PW_LIBRARY_CORE_OTHER})},

    /* [firmware] */
    {"firmware.block", "16KiB",
     "largest block of a transfer; blocks end at its multiples in the destination",
     SIZE(block_bytes, 4 * KIB, 16 * KIB), .power_of_two = 1},
    {"firmware.window_blocks", "2", "blocks of one transfer that are outstanding at a time",
     COUNT(window_blocks, "blocks", 1, 64)},
    {"firmware.multipath", "1",
     "ways that the blocks of a transfer take in turn where nodes share links (network.model) and "
     "the topology has several [R5 1.2]",
     COUNT(multipath, "ways", 1, 64)},
    {"firmware.rate_limit", "0",
     "most that a node sends in blocks, with headers and retransmissions; 0: no limit (assumed)",
     COUNT(rate_limit_mbps, "Mb/s", 0, 1000000)},
    {"firmware.congestion", "none",
     "what a node does about congestion: none; delay: for each peer it sends as fast as the round "
     "trips of its blocks allow (assumed)",
     CHOICE(congestion, {"none", PW_CONGESTION_NONE}, {"delay", PW_CONGESTION_DELAY})},
    {"firmware.high_limit", "16KiB", "largest transfer of the high class (issued in one go)",
     SIZE(high_limit_bytes, 1, 4 * GIB)},
    {"firmware.medium_limit", "512KiB", "largest transfer of the medium class; larger ones are low",
     SIZE(medium_limit_bytes, 1, 4 * GIB)},
    {"firmware.requeue", "static",
     "queue that a transfer re-enters: static: its own; dynamic: the one for its remaining size",
     CHOICE(requeue_dynamic, {"static", 0}, {"dynamic", 1})},
    {"firmware.strict_priority", "false",
     "a transfer whose window is full holds back lower classes until its last block has left; "
     "otherwise they are issued meanwhile",
     FLAG(strict_priority)},
    {"firmware.bypass", "true",
     "a high-class transfer that finds the high queue empty is issued at once, past the queues",
     FLAG(bypass)},
    {"firmware.fast_path", "true",
     "new transfers are noticed through a special scratchpad word, not only the mailbox",
     FLAG(fast_path)},
    {"firmware.ticket_queue", "true",
     "free transaction ids come from a circular queue; without it the table is searched",
     FLAG(ticket_queue)},
    {"firmware.queue_counters", "true",
     "counters tell which queues are empty; without them each pass reads the empty ones too",
     FLAG(queue_counters)},
    {"firmware.scheduling", "size",
     "scheduling policy, which gives a transfer its class and window", KIND(CHOICE), NO_FIELD,
     KEPT(scheduling), .takes_class = 1, CHOICES({"size", 0}),
     MEANINGS("by firmware.high_limit, medium_limit and window_blocks"), .is_of_run = 1},
    {"firmware.timeout", "fixed",
     "a block's timeout: fixed: run.timeout; auto: from distance, topology and rate [R5 4.2, 4.4], "
     "four times what a full window takes to this peer and back; measured: from the round trips of "
     "blocks to this peer as well, never less than auto (assumed)",
     CHOICE(timeout_from, {"fixed", PW_TIMEOUT_FIXED}, {"auto", PW_TIMEOUT_AUTO},
            {"measured", PW_TIMEOUT_MEASURED})},
    {"firmware.timeout_implementation", "absolute",
     "how a block's timeout is kept: absolute: time stamp; tick: value of a global counter; "
     "countdown: ticks left, the list's head decremented at each tick",
     CHOICE(timeout_implementation, {"absolute", PW_TIMEOUT_ABSOLUTE}, {"tick", PW_TIMEOUT_TICK},
            {"countdown", PW_TIMEOUT_COUNTDOWN})},
    {"firmware.tick", "1ms",
     "tick of timeouts by tick or countdown; run.timeout is rounded up to whole ticks",
     DURATION(tick_ns, 1 * US, 1 * S)},
    {"firmware.read_mailbox", "separate",
     "where read requests wait for the R5: separate: in a mailbox of their own; shared: with the "
     "acknowledgements, which a request without room then blocks for ever",
     CHOICE(read_mailbox_separate, {"shared", 0}, {"separate", 1})},
    {"firmware.read_buffer_requests", "64",
     "read requests that the R5 buffers while no read channel is free; more stay in the mailbox; 0 "
     "for no buffer",
     COUNT(read_buffer_requests, "requests", 0, 4096)},
    {"firmware.read_retry", "none",
     "period at which buffered read requests are tried again; none: when a channel becomes free",
     DURATION(read_retry_ns, 1 * US, 1 * S), NONE_IS(0)},
    {"firmware.mailbox_entries", "512",
     "entries of each mailbox; whatever finds it full waits in front of it",
     COUNT(mailbox_entries, "entries", 1, 4096)},

    /* [ni] */
    {"ni.engine", "frdma",
     "what moves the data: frdma: the NI's engine and the R5's firmware; zdma: the DMA engine of "
     "the node before it, with small packets, few of them outstanding, and no retransmission: a "
     "page fault or a loss ends the transfer with an error [PSI 1.3.2]",
     CHOICE(engine, {"frdma", PW_ENGINE_FRDMA}, {"zdma", PW_ENGINE_ZDMA})},
    {"ni.fifo_depth", "512",
     "entries of the NI FIFO; when it is full, further faults are not logged",
     COUNT(ni_fifo_depth, "entries", 1, 512)},
    {"ni.fifo_remembers", "1",
     "blocks whose last entry the NI FIFO knows, so that it does not log the same page again "
     "[PSI 5.2 (3)]",
     COUNT(ni_fifo_remembers, "blocks", 1, 2)},
    {"ni.receive_buffer_blocks", "0",
     "blocks that may wait for the receive engine; one more is refused (NACK 7) and sent again at "
     "once; 0: links hold blocks at their source instead",
     COUNT(receive_buffer_blocks, "blocks", 0, 1024)},
    {"ni.lookahead_blocks", "128",
     "speed of the emulator, not of the machine: blocks of a lone transfer sent before their "
     "answers are physically here, when these are certain; 0 for none, and no read is foreseen",
     COUNT(lookahead_blocks, "blocks", 0, 256)},
    {"ni.interleave", "none",
     "how the packets of the two outstanding blocks of a transfer share the link: none: one block "
     "after the other; packet: they take turns",
     CHOICE(interleave, {"none", PW_INTERLEAVE_NONE}, {"packet", PW_INTERLEAVE_PACKET})},
    {"ni.reads_without_key", "false",
     "serve remote reads with key 0, which the protection domain (PDID) alone then guards; "
     "otherwise they are refused",
     FLAG(reads_without_key)},
    {"ni.write_keys", "unit",
     "remote writes with key 0: optional: served, and the protection domain (PDID) alone guards; "
     "needed: refused; unit: refused with run.translation = mini or static; a key that is given "
     "is checked always",
     CHOICE(write_keys, {"unit", PW_WRITE_KEYS_UNIT}, {"needed", PW_WRITE_KEYS_NEEDED},
            {"optional", PW_WRITE_KEYS_OPTIONAL})},

    /* [network] */
    {"network.topology", "qfdb",
     "links and routers between the nodes: qfdb: the machine's own, or with the sides of its torus "
     "of boards qfdb:4x2x2; torus:16x8x8; mesh:16x16; fat-tree:2;4,4;1,2;1,2; "
     "dragonfly:9,2;2,1;4,1;2;ugal; full; file:PATH; docs/network.md",
     KIND(TEXT), NO_FIELD, KEPT(topology)},
    {"network.placement", "packed",
     "where ranks stand: packed: in order; round-robin: one on each board or switch in turn; "
     "random:SEED; or the path of a file with a place for each rank",
     KIND(TEXT), NO_FIELD, KEPT(placement)},
    {"network.failed", "",
     "links that have failed, both directions, so that ways go round them: '2 to 3, cable 1; 17 to "
     "18; router 5', names as the replay's table of links has them, or the path of a file of them",
     KIND(TEXT), NO_FIELD, KEPT(failed)},
    {"network.lossy", "",
     "links that lose packets of blocks, as many as impairments.link_loss says; names as for "
     "network.failed",
     KIND(TEXT), NO_FIELD, KEPT(lossy)},
    {"network.model", "private",
     "private: each pair of nodes has a link of its own, as fast as the slowest on the way; links: "
     "all nodes share the links of the topology, a block at a time, where one process holds them "
     "all (replay, lab); packets: the same a packet at a time, slower and more exact",
     CHOICE(network_model, {"private", PW_NETWORK_PRIVATE}, {"links", PW_NETWORK_LINKS},
            {"packets", PW_NETWORK_PACKETS})},
    {"network.quantum", "256",
     "bytes of a block that network.model = packets moves as one, without headers: a packet's, or "
     "a multiple, faster and coarser",
     SIZE(network_quantum_bytes, PW_PACKET_BYTES, PW_BLOCK_BYTES)},
    {"network.wait_limit", "100us", "a block that waits longer before a link is counted",
     DURATION(network_wait_limit_ns, 0, 3600 * S)},

    /* [unimem] */
    {"unimem.fifo_words", "512",
     "words of 128 bits that each of the 64 FIFOs of a node's mailbox holds; an even number, or a "
     "request of two words can be cut in half; the sources do not give it",
     COUNT(mailbox_fifo_words, "words", 1, 65536)},
    {"unimem.bursts", "hardware",
     "a burst that finds room for some of its words: hardware: these are kept, the others lost, "
     "the answer is positive; whole: it is refused",
     CHOICE(mailbox_bursts, {"hardware", PW_BURSTS_HARDWARE}, {"whole", PW_BURSTS_WHOLE})},
    {"unimem.memory", "64MiB", "memory that a node gives to shared pages",
     SIZE(shared_memory_bytes, 4 * KIB, 1 * TIB)},
    {"unimem.dma_buffer", "256MiB",
     "the longest buffer of the DMA library on a node, the prototype's; none: 4 GiB - 1, what a "
     "descriptor can say",
     SIZE(dma_buffer_bytes, 1, UINT32_MAX), NONE_IS(-1)},
    {"unimem.dma_buffers", "1",
     "buffers of the DMA library on a node at a time, whoever has allocated them; the prototype "
     "had one; none: no limit",
     COUNT(dma_buffers, "buffers", 1, 1 * MIB), NONE_IS(-1)},

    /* [impairments] */
    {"impairments.planner", "uniform", "which ranks are impaired", KIND(TEXT), NO_FIELD,
     .takes_class = 1, .is_of_run = 1},
    {"impairments.packet_loss", "0:1:0", "packets of blocks that get lost" OR_SITE,
     SITE(PACKET_LOSS)},
    {"impairments.packet_corruption", "0:1:0",
     "packets of blocks that arrive with a bit flipped" OR_SITE, SITE(PACKET_CORRUPTION)},
    {"impairments.duplication", "0:1:0", "blocks that arrive twice" OR_SITE, SITE(DUPLICATION)},
    {"impairments.duplicate_after", "10us", "how much later a duplicate arrives",
     LATE(DUPLICATION)},
    {"impairments.delay", "0:1:0", "blocks that the network delays" OR_SITE, SITE(DELAY)},
    {"impairments.delay_by", "50us", "how long a delayed block is kept", LATE(DELAY)},
    {"impairments.lost_ack", "0:1:0", "ACKs that get lost" OR_SITE, SITE(LOST_ACK)},
    {"impairments.lost_nack", "0:1:0", "NACKs that get lost" OR_SITE, SITE(LOST_NACK)},
    {"impairments.lost_err", "0:1:0", "ERRs that get lost" OR_SITE, SITE(LOST_ERR)},
    {"impairments.late_tasklet", "0:1:0", "starts of the tasklet that are late" OR_SITE,
     SITE(LATE_TASKLET)},
    {"impairments.tasklet_late_by", "100us", "how late a late tasklet starts", LATE(LATE_TASKLET)},
    {"impairments.fifo_full", "0:1:0",
     "packets that fault at the destination and find the NI FIFO full" OR_SITE, SITE(FIFO_FULL)},
    {"impairments.link_loss", "0:1:0",
     "packets of blocks that get lost on a link of network.lossy" OR_SITE, SITE(LINK_LOSS)},
};

#define NUM_ROWS (sizeof rows / sizeof *rows)

const pw_setting_row *pw_setting_row_at(uint32_t idx)
{
    if (idx < NUM_ROWS) return &rows[idx];
    return idx - NUM_ROWS < pw_num_cost_rows ? &pw_cost_rows[idx - NUM_ROWS] : NULL;
}

const pw_setting_row *pw_setting_row_find(const char *name, size_t name_bytes)
{
    const pw_setting_row *row;
    for (uint32_t i = 0; (row = pw_setting_row_at(i)); i++)
        if (strlen(row->name) == name_bytes && !memcmp(row->name, name, name_bytes)) return row;
    return NULL;
}
