/* Every setting of a run: name, default, help; kind, the field of pw_node_config that it sets,
 * limits. C reads texts by these rows; Python makes its configuration, its checks, `pagewire info`,
 * the docs' tables and the schemas of them. A new setting is a row here and a field of the struct.
 */
#include "node/settings/setting_rows.h"
#include "native/memory.h"
#include "ni/packetizer.h"
#include "node/messages/messages.h"
#include "node/settings/config.h"

#define KIND(name) .kind = PW_KIND_##name
#define CHOICES(...) \
    .choices = (const pw_setting_choice[]) { __VA_ARGS__, {NULL, 0} }
#define MEANINGS(...) \
    .meanings = (const char *const[]) { __VA_ARGS__ }
#define LIMITS(low, high) .min = low, .max = high
#define NONE_IS(number) .takes_none = 1, .none = number
#define ENGINE(field) .offset = offsetof(pw_node_config, settings.field)
#define RUN(field) .offset = offsetof(pw_node_config, run.field)
#define SITE(name) KIND(SITE), .offset = offsetof(pw_node_config, impairments[PW_IMPAIRMENT_##name])
/* How late what fails there is. */
#define LATE(name)                                                                   \
    .offset = offsetof(pw_node_config, impairments[PW_IMPAIRMENT_##name].amount_ns), \
    LIMITS(0, 3600 * S)
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
    {"run.err", "true", "send the ERR (retransmit request) when a block's pages are in", KIND(BOOL),
     ENGINE(err_enabled)},
    {"run.timeout", "1ms",
     "time after which a block without acknowledgement is sent again, or none", KIND(DURATION),
     ENGINE(timeout_ns), LIMITS(1 * US, 3600 * S), NONE_IS(-1)},
    {"run.nack_cancels_timer", "false",
     "a page-fault NACK stops the block's timer, so that only the ERR resumes it (NTO)", KIND(BOOL),
     ENGINE(nack_cancels_timer)},
    {"run.eager_limit", "64B",
     "longest message that travels inside its envelope instead of by RDMA", KIND(SIZE),
     ENGINE(eager_limit_bytes), LIMITS(0, PW_MESSAGE_EAGER_MAX_BYTES)},
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
     "host's; virtual: as MPI_Wtime, for programs that time themselves",
     KIND(CHOICE), RUN(clocks), CHOICES({"host", PW_CLOCKS_HOST}, {"virtual", PW_CLOCKS_VIRTUAL}),
     .is_of_run = 1},
    {"run.translation", "smmu",
     "what translates the NI's accesses: smmu: page-table walks; mini: caches on the NIC of tables "
     "in host memory, which pins; static: all tables on the NIC",
     KIND(CHOICE), ENGINE(translation),
     CHOICES({"smmu", PW_TRANSLATION_SMMU}, {"mini", PW_TRANSLATION_MINI},
             {"static", PW_TRANSLATION_STATIC})},
    {"run.platform", "exanest-qfdb", "name or path (.toml) of the platform file", KIND(PLATFORM),
     NO_FIELD, KEPT(platform)},
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
    {"run.mpi", "mpich",
     "which MPI starts the ranks: mpich, openmpi, or the path of another mpiexec", KIND(TEXT),
     NO_FIELD, .is_of_run = 1},
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
     KIND(BOOL), ENGINE(hash_received)},
    {"run.quiet", "false", "print no report when the run ends", KIND(BOOL), RUN(quiet),
     .is_of_run = 1},
    {"run.json", "", "write the report to this file as JSON", KIND(PATH), NO_FIELD, KEPT(json),
     .is_of_run = 1},
    {"run.trace", "", "write the run's timeline to this file, for ui.perfetto.dev", KIND(PATH),
     NO_FIELD, KEPT(trace), .is_of_run = 1},
    {"run.html", "", "write the report to this file as a page for a browser", KIND(PATH), NO_FIELD,
     KEPT(html), .is_of_run = 1},

    /* [strategy] */
    {"strategy.locked_limit", "none",
     "memory that a strategy may pin on a node before it is refused; the kernel of PART gave an "
     "unprivileged user 64 KiB; none: this host's limit (ulimit -l) alone",
     KIND(SIZE), ENGINE(locked_limit_bytes), LIMITS(4 * KIB, 1024 * TIB), NONE_IS(-1)},
    {"strategy.check_mappings", "true",
     "ask before each use of what pin-cache, utlb and pretouch-once keep whether its mapping is "
     "still there; false: transfers of the first two go astray as on real hardware, and are "
     "counted",
     KIND(BOOL), ENGINE(strategy_checks_mappings)},
    {"strategy.pin_cache_limit", "64MiB",
     "pin-cache: memory that stays pinned between transfers, or none for no limit", KIND(SIZE),
     ENGINE(pin_cache_limit_bytes), LIMITS(4 * KIB, 1024 * TIB), NONE_IS(-1)},
    {"strategy.pin_cache_limit_regions", "1024",
     "pin-cache: regions that stay pinned between transfers; neighbours are one", .unit = "regions",
     KIND(NUMBER), ENGINE(pin_cache_limit_regions), LIMITS(1, 1 * MIB)},
    {"strategy.piece", "64KiB",
     "bounce and pin-rendezvous: a message goes in pieces of this size; for bounce also the size "
     "of a buffer",
     KIND(SIZE), ENGINE(piece_bytes), LIMITS(4 * KIB, 1 * GIB), .power_of_two = 1},
    {"strategy.bounce_buffers", "16",
     "bounce: buffers that are pinned from the start, half of them for what is sent",
     .unit = "buffers", KIND(NUMBER), ENGINE(bounce_buffers), LIMITS(2, 4096)},
    {"strategy.utlb_limit", "64MiB",
     "utlb: memory that stays pinned between transfers, or none for no limit", KIND(SIZE),
     ENGINE(utlb_limit_bytes), LIMITS(4 * KIB, 1024 * TIB), NONE_IS(-1)},
    {"strategy.utlb_cache_entries", "8192",
     "utlb: entries of the NIC's cache of the table (assumed: the least of miNI's sizes)",
     .unit = "entries", KIND(NUMBER), ENGINE(utlb_cache_entries), LIMITS(1, 1 * MIB),
     .power_of_two = 1},
    {"strategy.utlb_fetch_entries", "8",
     "utlb: entries that a miss in it reads at once: the page's and those behind it, as far as the "
     "transfer goes",
     .unit = "entries", KIND(NUMBER), ENGINE(utlb_fetch_entries), LIMITS(1, 64)},
    {"strategy.firehose_limit", "64MiB",
     "firehose: memory of a node that its peers may hold pinned; each gets the same part of it",
     KIND(SIZE), ENGINE(firehose_limit_bytes), LIMITS(4 * KIB, 1024 * TIB)},
    {"strategy.firehose_victims", "16MiB",
     "firehose: memory that stays pinned although no peer holds it and no transfer uses it",
     KIND(SIZE), ENGINE(firehose_victims_bytes), LIMITS(0, 1024 * TIB)},

    /* [memory_backend] */
    {"memory_backend.backend", "host",
     "host: mincore and madvise of the process's own pages; model: seeded software page table",
     KIND(CHOICE), ENGINE(memory_backend),
     CHOICES({"host", PW_MEMORY_HOST}, {"model", PW_MEMORY_MODEL})},
    {"memory_backend.seed", "1", "seed of the model's random draws", KIND(NUMBER),
     ENGINE(model_seed), LIMITS(0, INT64_MAX)},
    {"memory_backend.fault_fraction", "0.0",
     "model: probability that a page is absent when a transfer first meets it", KIND(FRACTION),
     ENGINE(model_fault_millionths), LIMITS(0, MILLION)},
    {"memory_backend.frame_limit_pages", "0",
     "model: frames before the least recently used page is evicted; 0 for no limit",
     .unit = "pages", KIND(NUMBER), ENGINE(model_frame_limit_pages), LIMITS(0, 1 * TIB)},
    {"memory_backend.huge_pages", "false",
     "model: every aligned 2 MB is one huge page until a part of it is taken away", KIND(BOOL),
     ENGINE(model_huge_pages)},
    {"memory_backend.collapse_fraction", "0.0",
     "model: probability that a transfer finds 2 MB of its resident pages just collapsed into a "
     "huge page, their translations gone",
     KIND(FRACTION), ENGINE(model_collapse_millionths), LIMITS(0, MILLION)},

    /* [smmu] */
    {"smmu.num_context_banks", "16",
     "context banks, one for each process; without one: NACK 3 (the R5's scratchpad serves 16)",
     .unit = "banks", KIND(NUMBER), ENGINE(num_context_banks), LIMITS(1, 128)},
    {"smmu.l1_sets", "1", "sets of the L1 TLB; 1 is fully associative", .unit = "sets",
     KIND(NUMBER), ENGINE(l1_sets), LIMITS(1, 65536), .power_of_two = 1},
    {"smmu.l1_ways", "128", "ways of the L1 TLB", .unit = "ways", KIND(NUMBER), ENGINE(l1_ways),
     LIMITS(1, 1024)},
    {"smmu.l2_sets", "512", "sets of the L2 TLB", .unit = "sets", KIND(NUMBER), ENGINE(l2_sets),
     LIMITS(1, 65536), .power_of_two = 1},
    {"smmu.l2_ways", "4", "ways of the L2 TLB", .unit = "ways", KIND(NUMBER), ENGINE(l2_ways),
     LIMITS(1, 1024)},
    {"smmu.line_pages", "1", "pages that one TLB line translates", .unit = "pages", KIND(NUMBER),
     ENGINE(tlb_line_pages), LIMITS(1, 128), .power_of_two = 1},
    {"smmu.walk_cache_entries", "64",
     "entries of the walk cache (upper-level page tables, LRU); 0 for none (64 is assumed: the "
     "sources give no size)",
     .unit = "entries", KIND(NUMBER), ENGINE(walk_cache_entries), LIMITS(0, 1024)},
    {"smmu.prefetch_entries", "0",
     "entries of the prefetch buffer, which walks the next page beside each walk; 0 for none "
     "(Linux turns the MMU-500's prefetcher off)",
     .unit = "entries", KIND(NUMBER), ENGINE(prefetch_entries), LIMITS(0, 1024)},
    {"smmu.parallel_walks", "16", "page-table walks at a time; one more waits", .unit = "walks",
     KIND(NUMBER), ENGINE(parallel_walks), LIMITS(1, 16)},
    {"smmu.outstanding_accesses", "256",
     "accesses that can wait in the SMMU at a time; one more holds up the NI", .unit = "accesses",
     KIND(NUMBER), ENGINE(outstanding_accesses), LIMITS(1, 256)},
    {"smmu.hupcf", "1",
     "hit under previous context fault: 1 processes later accesses on their own; 0 terminates, or "
     "stalls, every access of the bank while a fault is active",
     KIND(NUMBER), ENGINE(hupcf), LIMITS(0, 1)},
    {"smmu.mode", "terminate",
     "what happens to a faulting access: terminate: it is not done, and the NI sends a NACK; "
     "stall: it waits until the driver has paged in and writes RESUME",
     KIND(CHOICE), ENGINE(stall), CHOICES({"terminate", 0}, {"stall", 1})},

    /* [mini] */
    {"mini.processes", "8", "processes of a node that the NIC knows, in mini and static",
     .unit = "processes", KIND(NUMBER), ENGINE(mini_processes), LIMITS(1, 128)},
    {"mini.vmh_entries", "16384", "entries of the VMH cache: translations of pages",
     .unit = "entries", KIND(NUMBER), ENGINE(vmh_entries), LIMITS(2, 1 * MIB), .power_of_two = 1},
    {"mini.vmh_line_pages", "64", "entries of a line of it, filled together and aligned",
     .unit = "pages", KIND(NUMBER), ENGINE(vmh_line_pages), LIMITS(1, 128), .power_of_two = 1},
    {"mini.vmh_ways", "4",
     "ways of it; at least two, since a line that a DMA uses cannot be replaced", .unit = "ways",
     KIND(NUMBER), ENGINE(vmh_ways), LIMITS(2, 1024), .power_of_two = 1},
    {"mini.cbh_entries", "1024",
     "entries of the CBH cache: registered buffers (assumed: the thesis leaves its size open)",
     .unit = "entries", KIND(NUMBER), ENGINE(cbh_entries), LIMITS(2, 1 * MIB), .power_of_two = 1},
    {"mini.cbh_ways", "4", "ways of it", .unit = "ways", KIND(NUMBER), ENGINE(cbh_ways),
     LIMITS(2, 1024), .power_of_two = 1},
    {"mini.high_water_pages", "0",
     "pinned pages at which the driver unpins; 0: it never does of itself", .unit = "pages",
     KIND(NUMBER), ENGINE(vmh_high_pages), LIMITS(0, 1 * TIB)},
    {"mini.low_water_pages", "0",
     "pinned pages at which it stops, or that it comes to when nothing more can be pinned",
     .unit = "pages", KIND(NUMBER), ENGINE(vmh_low_pages), LIMITS(0, 1 * TIB)},
    {"mini.water_period", "10ms",
     "time between two looks at the high water mark (10 ms are assumed)", KIND(DURATION),
     ENGINE(vmh_check_ns), LIMITS(1, 3600 * S)},
    {"mini.order", "node",
     "what happens behind a block that is dropped or damaged, or came in part: node: every later "
     "one from that node is dropped too until it has come, as in VMMC; block: nothing",
     KIND(CHOICE), ENGINE(keeps_order), CHOICES({"node", 1}, {"block", 0})},
    {"mini.miss_times", "platform",
     "how long the host takes for a miss: platform: component costs; else drawn from what the "
     "thesis measured with that application",
     KIND(CHOICE), ENGINE(miss_times),
     CHOICES({"platform", PW_MISS_TIMES_PLATFORM}, {"water-nsquared", PW_MISS_TIMES_WATER_NSQUARED},
             {"water-spatial", PW_MISS_TIMES_WATER_SPATIAL}, {"fft", PW_MISS_TIMES_FFT},
             {"radix", PW_MISS_TIMES_RADIX}, {"lu", PW_MISS_TIMES_LU},
             {"ocean", PW_MISS_TIMES_OCEAN}, {"volrend", PW_MISS_TIMES_VOLREND},
             {"raytrace", PW_MISS_TIMES_RAYTRACE})},
    {"mini.static_pages", "131072",
     "entries of the table of pages in static: 512 MB can be registered", .unit = "pages",
     KIND(NUMBER), ENGINE(static_pages), LIMITS(1, 1 * TIB)},
    {"mini.static_buffers", "1024", "entries of the table of buffers in static", .unit = "buffers",
     KIND(NUMBER), ENGINE(static_buffers), LIMITS(1, 1 * MIB)},
    {"mini.memory", "2MiB", "memory of the NIC, in mini and static; what does not fit is refused",
     KIND(SIZE), ENGINE(nic_memory_bytes), LIMITS(1 * KIB, 1024 * TIB)},

    /* [odp] */
    {"odp.rnr_timer", "640us",
     "time that a source pauses a transfer whose destination is not ready; InfiniBand has steps "
     "from 10 us to 655.36 ms, of which 640 us is number 12",
     KIND(DURATION), ENGINE(odp_rnr_ns), LIMITS(1 * US, 3600 * S)},
    {"odp.fault_pages", "1024",
     "pages at most that a fault brings in, from the faulting one to the end of its transfer; mlx5 "
     "stops at 4 MiB",
     .unit = "pages", KIND(NUMBER), ENGINE(odp_fault_pages), LIMITS(1, 1024)},
    {"odp.prefetch", "false",
     "the receiver's library advises the driver of a message's destination when it is matched "
     "(ibv_advise_mr)",
     KIND(BOOL), ENGINE(odp_prefetch)},

    /* [driver] */
    {"driver.variant", "part",
     "part: each unique page is resolved by itself [PART 4.4, 5.2]; psi: pages that the last two "
     "transactions brought in are skipped [PSI 3.2, 4]",
     KIND(CHOICE), ENGINE(driver_variant),
     CHOICES({"part", PW_DRIVER_PART}, {"psi", PW_DRIVER_PSI})},
    {"driver.page_in", "touch-ahead",
     "touch-ahead: the tasklet calls get_user_pages; touch-a-page: it sends a Netlink message for "
     "each page, and the library thread touches it (at the source: one page a fault)",
     KIND(CHOICE), ENGINE(page_in),
     CHOICES({"touch-ahead", PW_PAGE_IN_TOUCH_AHEAD}, {"touch-a-page", PW_PAGE_IN_TOUCH_A_PAGE})},
    {"driver.touch_ahead_pages", "4",
     "most pages that get_user_pages brings in for a fault at the source", .unit = "pages",
     KIND(NUMBER), ENGINE(touch_ahead_pages), LIMITS(1, 4)},
    {"driver.entries_per_tasklet_run", "16", "most NI FIFO entries that one tasklet run reads",
     .unit = "entries", KIND(NUMBER), ENGINE(tasklet_entries), LIMITS(1, 512)},
    {"driver.library_core", "same",
     "where the library thread runs: same: on the tasklet's core, after it; other: on another "
     "core, as soon as the message is sent",
     KIND(CHOICE), ENGINE(library_core),
     CHOICES({"same", PW_LIBRARY_CORE_SAME}, {"other", PW_LIBRARY_CORE_OTHER})},

    /* [firmware] */
    {"firmware.block", "16KiB",
     "largest block of a transfer; blocks end at its multiples in the destination", KIND(SIZE),
     ENGINE(block_bytes), LIMITS(4 * KIB, 16 * KIB), .power_of_two = 1},
    {"firmware.window_blocks", "2", "blocks of one transfer that are outstanding at a time",
     .unit = "blocks", KIND(NUMBER), ENGINE(window_blocks), LIMITS(1, 64)},
    {"firmware.high_limit", "16KiB", "largest transfer of the high class (issued in one go)",
     KIND(SIZE), ENGINE(high_limit_bytes), LIMITS(1, 4 * GIB)},
    {"firmware.medium_limit", "512KiB", "largest transfer of the medium class; larger ones are low",
     KIND(SIZE), ENGINE(medium_limit_bytes), LIMITS(1, 4 * GIB)},
    {"firmware.requeue", "static",
     "queue that a transfer re-enters: static: its own; dynamic: the one for its remaining size",
     KIND(CHOICE), ENGINE(requeue_dynamic), CHOICES({"static", 0}, {"dynamic", 1})},
    {"firmware.strict_priority", "false",
     "a transfer whose window is full holds back lower classes until its last block has left; "
     "otherwise they are issued meanwhile",
     KIND(BOOL), ENGINE(strict_priority)},
    {"firmware.bypass", "true",
     "a high-class transfer that finds the high queue empty is issued at once, past the queues",
     KIND(BOOL), ENGINE(bypass)},
    {"firmware.fast_path", "true",
     "new transfers are noticed through a special scratchpad word, not only the mailbox",
     KIND(BOOL), ENGINE(fast_path)},
    {"firmware.ticket_queue", "true",
     "free transaction ids come from a circular queue; without it the table is searched",
     KIND(BOOL), ENGINE(ticket_queue)},
    {"firmware.queue_counters", "true",
     "counters tell which queues are empty; without them each pass reads the empty ones too",
     KIND(BOOL), ENGINE(queue_counters)},
    {"firmware.scheduling", "size",
     "scheduling policy, which gives a transfer its class and window", KIND(CHOICE), NO_FIELD,
     KEPT(scheduling), .takes_class = 1, CHOICES({"size", 0}),
     MEANINGS("by firmware.high_limit, medium_limit and window_blocks"), .is_of_run = 1},
    {"firmware.timeout_implementation", "absolute",
     "how a block's timeout is kept: absolute: time stamp; tick: value of a global counter; "
     "countdown: ticks left, every entry decremented at each tick",
     KIND(CHOICE), ENGINE(timeout_implementation),
     CHOICES({"absolute", PW_TIMEOUT_ABSOLUTE}, {"tick", PW_TIMEOUT_TICK},
             {"countdown", PW_TIMEOUT_COUNTDOWN})},
    {"firmware.tick", "1ms",
     "tick of timeouts by tick or countdown; run.timeout is rounded up to whole ticks",
     KIND(DURATION), ENGINE(tick_ns), LIMITS(1 * US, 1 * S)},
    {"firmware.read_mailbox", "separate",
     "where read requests wait for the R5: separate: in a mailbox of their own; shared: with the "
     "acknowledgements, which a request without room then blocks for ever",
     KIND(CHOICE), ENGINE(read_mailbox_separate), CHOICES({"shared", 0}, {"separate", 1})},
    {"firmware.read_buffer_requests", "64",
     "read requests that the R5 buffers while no read channel is free; more stay in the mailbox; 0 "
     "for no buffer",
     .unit = "requests", KIND(NUMBER), ENGINE(read_buffer_requests), LIMITS(0, 4096)},
    {"firmware.read_retry", "none",
     "period at which buffered read requests are tried again; none: when a channel becomes free",
     KIND(DURATION), ENGINE(read_retry_ns), LIMITS(1 * US, 1 * S), NONE_IS(0)},
    {"firmware.mailbox_entries", "512",
     "entries of each mailbox; whatever finds it full waits in front of it", .unit = "entries",
     KIND(NUMBER), ENGINE(mailbox_entries), LIMITS(1, 4096)},

    /* [ni] */
    {"ni.fifo_depth", "512",
     "entries of the NI FIFO; when it is full, further faults are not logged", .unit = "entries",
     KIND(NUMBER), ENGINE(ni_fifo_depth), LIMITS(1, 512)},
    {"ni.receive_buffer_blocks", "0",
     "blocks that may wait for the receive engine; one more is refused (NACK 7) and sent again at "
     "once; 0: links hold blocks at their source instead",
     .unit = "blocks", KIND(NUMBER), ENGINE(receive_buffer_blocks), LIMITS(0, 1024)},
    {"ni.lookahead_blocks", "128",
     "speed of the emulator, not of the machine: blocks of a lone transfer sent before their "
     "answers are physically here, when these are certain; 0 for none",
     .unit = "blocks", KIND(NUMBER), ENGINE(lookahead_blocks), LIMITS(0, 256)},
    {"ni.interleave", "none",
     "how the packets of the two outstanding blocks of a transfer share the link: none: one block "
     "after the other; packet: they take turns",
     KIND(CHOICE), ENGINE(interleave),
     CHOICES({"none", PW_INTERLEAVE_NONE}, {"packet", PW_INTERLEAVE_PACKET})},
    {"ni.reads_without_key", "false",
     "serve remote reads with key 0, which the protection domain (PDID) alone then guards; "
     "otherwise they are refused",
     KIND(BOOL), ENGINE(reads_without_key)},

    /* [unimem] */
    {"unimem.fifo_words", "512",
     "words of 128 bits that each of the 64 FIFOs of a node's mailbox holds; an even number, or a "
     "request of two words can be cut in half; the sources do not give it",
     .unit = "words", KIND(NUMBER), ENGINE(mailbox_fifo_words), LIMITS(1, 65536)},
    {"unimem.bursts", "hardware",
     "a burst that finds room for some of its words: hardware: these are kept, the others lost, "
     "the answer is positive; whole: it is refused",
     KIND(CHOICE), ENGINE(mailbox_bursts),
     CHOICES({"hardware", PW_BURSTS_HARDWARE}, {"whole", PW_BURSTS_WHOLE})},
    {"unimem.memory", "64MiB", "memory that a node gives to shared pages", KIND(SIZE),
     ENGINE(shared_memory_bytes), LIMITS(4 * KIB, 1 * TIB)},
    {"unimem.dma_buffer", "256MiB",
     "the longest buffer of the DMA library on a node, the prototype's; none: 4 GiB - 1, what a "
     "descriptor can say",
     KIND(SIZE), ENGINE(dma_buffer_bytes), LIMITS(1, UINT32_MAX), NONE_IS(-1)},
    {"unimem.dma_buffers", "1",
     "buffers of the DMA library on a node at a time, whoever has allocated them; the prototype "
     "had one; none: no limit",
     .unit = "buffers", KIND(NUMBER), ENGINE(dma_buffers), LIMITS(1, 1 * MIB), NONE_IS(-1)},

    /* [impairments] */
    {"impairments.planner", "uniform", "which ranks are impaired", KIND(TEXT), NO_FIELD,
     .takes_class = 1, .is_of_run = 1},
    {"impairments.packet_loss", "0:1:0",
     "packets of blocks that get lost; num:denom:seed or num:denom:seed:limit", SITE(PACKET_LOSS)},
    {"impairments.packet_corruption", "0:1:0",
     "packets of blocks that arrive with a bit flipped; num:denom:seed or num:denom:seed:limit",
     SITE(PACKET_CORRUPTION)},
    {"impairments.duplication", "0:1:0",
     "blocks that arrive twice; num:denom:seed or num:denom:seed:limit", SITE(DUPLICATION)},
    {"impairments.duplicate_after", "10us", "how much later a duplicate arrives", KIND(DURATION),
     LATE(DUPLICATION)},
    {"impairments.delay", "0:1:0",
     "blocks that the network delays; num:denom:seed or num:denom:seed:limit", SITE(DELAY)},
    {"impairments.delay_by", "50us", "how long a delayed block is kept", KIND(DURATION),
     LATE(DELAY)},
    {"impairments.lost_ack", "0:1:0", "ACKs that get lost; num:denom:seed or num:denom:seed:limit",
     SITE(LOST_ACK)},
    {"impairments.lost_nack", "0:1:0",
     "NACKs that get lost; num:denom:seed or num:denom:seed:limit", SITE(LOST_NACK)},
    {"impairments.lost_err", "0:1:0", "ERRs that get lost; num:denom:seed or num:denom:seed:limit",
     SITE(LOST_ERR)},
    {"impairments.late_tasklet", "0:1:0",
     "starts of the tasklet that are late; num:denom:seed or num:denom:seed:limit",
     SITE(LATE_TASKLET)},
    {"impairments.tasklet_late_by", "100us", "how late a late tasklet starts", KIND(DURATION),
     LATE(LATE_TASKLET)},
    {"impairments.fifo_full", "0:1:0",
     "packets that fault at the destination and find the NI FIFO full; num:denom:seed or "
     "num:denom:seed:limit",
     SITE(FIFO_FULL)},
};

#define NUM_ROWS (sizeof rows / sizeof *rows)

const pw_setting_row *pw_setting_row_at(uint32_t idx)
{
    if (idx < NUM_ROWS) return &rows[idx];
    return idx - NUM_ROWS < pw_num_cost_rows ? &pw_cost_rows[idx - NUM_ROWS] : NULL;
}
