"""The sections of a run's settings as frozen dataclasses. Names and types alone stand here; help,
default and limits are in node/settings/setting_rows.c.
"""

from pagewire.driver import policy as page_in
from pagewire.native.declared import declared, section
from pagewire.node.strategies.built_in import REGISTRY as MEMORY_STRATEGIES
from pagewire.r5sched import scheduling


@section("run", (MEMORY_STRATEGIES, page_in.REGISTRY))
class RunConfig:
    """What a run does with memory, faults, small messages, compute time and its report."""

    memory: str = declared()
    policy: str = declared()
    err: bool = declared()
    timeout_ns: int | None = declared()
    nack_cancels_timer: bool = declared()
    eager_limit_bytes: int = declared()
    compute: str = declared()
    compute_scale: float = declared()
    compute_record: str = declared()
    compute_replay: str = declared()
    wtime: str = declared()
    clocks: str = declared()
    translation: str = declared()
    platform: str = declared()
    huge_pages: str = declared()
    strict: bool = declared()
    watchdog_ns: int | None = declared()
    transport: str = declared()
    mpi: str = declared()
    hosts: str = declared()
    mpiexec_options: str = declared()
    wire: str = declared()
    wire_interface: str = declared()
    hash_received: bool = declared()
    quiet: bool = declared()
    json: str = declared()
    trace: str = declared()
    html: str = declared()


@section("strategy")
class StrategyConfig:
    """Limits and sizes of what the built-in memory strategies keep (docs/strategies.md)."""

    locked_limit_bytes: int | None = declared()
    check_mappings: bool = declared()
    pin_cache_limit_bytes: int | None = declared()
    pin_cache_limit_regions: int = declared()
    piece_bytes: int = declared()
    bounce_buffers: int = declared()
    utlb_limit_bytes: int | None = declared()
    utlb_cache_entries: int = declared()
    utlb_fetch_entries: int = declared()
    firehose_limit_bytes: int = declared()
    firehose_victims_bytes: int = declared()


@section("memory_backend")
class MemoryBackendConfig:
    """Where page residency comes from: the operating system, or a seeded software page table."""

    backend: str = declared()
    seed: int = declared()
    fault_fraction: float = declared()
    frame_limit_pages: int = declared()
    huge_pages: bool = declared()
    collapse_fraction: float = declared()


@section("smmu")
class SmmuConfig:
    """Context banks, TLB geometry, fault mode [PART 4.3; PSI 3.2.1, App. A]; docs/machine.md."""

    num_context_banks: int = declared()
    l1_sets: int = declared()
    l1_ways: int = declared()
    l2_sets: int = declared()
    l2_ways: int = declared()
    line_pages: int = declared()
    walk_cache_entries: int = declared()
    prefetch_entries: int = declared()
    parallel_walks: int = declared()
    outstanding_accesses: int = declared()
    hupcf: int = declared()
    mode: str = declared()


@section("mini")
class MiniConfig:
    """miNI and its base system: caches on the NIC of tables in host memory, or (static) tables
    on the NIC [MINI 1.2, 3, 4]; docs/other-nics.md."""

    processes: int = declared()
    vmh_entries: int = declared()
    vmh_line_pages: int = declared()
    vmh_ways: int = declared()
    cbh_entries: int = declared()
    cbh_ways: int = declared()
    high_water_pages: int = declared()
    low_water_pages: int = declared()
    water_period_ns: int = declared()
    order: str = declared()
    miss_times: str = declared()
    static_pages: int = declared()
    static_buffers: int = declared()
    memory_bytes: int = declared()


@section("odp")
class OdpConfig:
    """How an InfiniBand NIC with on-demand paging meets a page that its table does not have;
    docs/other-nics.md."""

    rnr_timer_ns: int = declared()
    fault_pages: int = declared()
    prefetch: bool = declared()


@section("driver")
class DriverConfig:
    """What the operating system does with a page fault of the NI: interrupt handler, tasklet,
    library thread [PART 4.4, 5.2; PSI 3.2, 4]; docs/machine.md."""

    variant: str = declared()
    page_in: str = declared()
    touch_ahead_pages: int = declared()
    entries_per_tasklet_run: int = declared()
    library_core: str = declared()


@section("firmware", (scheduling.REGISTRY,))
class FirmwareConfig:
    """The R5: window, classes of transfers, queues, timeouts [R5 3]."""

    block_bytes: int = declared()
    window_blocks: int = declared()
    high_limit_bytes: int = declared()
    medium_limit_bytes: int = declared()
    requeue: str = declared()
    strict_priority: bool = declared()
    bypass: bool = declared()
    fast_path: bool = declared()
    ticket_queue: bool = declared()
    queue_counters: bool = declared()
    scheduling: str = declared()
    timeout_implementation: str = declared()
    tick_ns: int = declared()
    read_mailbox: str = declared()
    read_buffer_requests: int = declared()
    read_retry_ns: int | None = declared()
    mailbox_entries: int = declared()


@section("ni")
class NetworkInterfaceConfig:
    """NI FIFO, link and what the NI serves."""

    fifo_depth: int = declared()
    receive_buffer_blocks: int = declared()
    lookahead_blocks: int = declared()
    interleave: str = declared()
    reads_without_key: bool = declared()


@section("unimem")
class UnimemConfig:
    """Virtualised mailbox, shared memory of the atomic service, buffers of the DMA library;
    docs/unimem.md."""

    fifo_words: int = declared()
    bursts: str = declared()
    memory_bytes: int = declared()
    dma_buffer_bytes: int | None = declared()
    dma_buffers: int | None = declared()
