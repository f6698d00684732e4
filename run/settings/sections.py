"""The sections of a run's settings as frozen dataclasses. Their fields, with help, default and
limits, are the rows of node/settings/setting_rows.c.
"""

from pagewire.driver import policy as page_in
from pagewire.native.declared import Section, section
from pagewire.node.strategies.built_in import REGISTRY as MEMORY_STRATEGIES
from pagewire.r5sched import scheduling


@section("run", (MEMORY_STRATEGIES, page_in.REGISTRY))
class RunConfig(Section):
    """What a run does with memory, faults, small messages, compute time and its report."""


@section("strategy")
class StrategyConfig(Section):
    """Limits and sizes of what the built-in memory strategies keep (docs/strategies.md)."""


@section("memory_backend")
class MemoryBackendConfig(Section):
    """Where page residency comes from: the operating system, or a seeded software page table."""


@section("residency")
class ResidencyConfig(Section):
    """Who tells whether a page of the host's memory is there; docs/machine.md."""


@section("smmu")
class SmmuConfig(Section):
    """Context banks, TLB geometry, fault mode [PART 4.3; PSI 3.2.1, App. A]; docs/machine.md."""


@section("mini")
class MiniConfig(Section):
    """miNI and its base system: caches on the NIC of tables in host memory, or (static) tables
    on the NIC [MINI 1.2, 3, 4]; docs/other-nics.md."""


@section("odp")
class OdpConfig(Section):
    """How a NIC with on-demand paging meets a page that its table does not have;
    docs/other-nics.md."""


@section("ats")
class AtsConfig(Section):
    """PCIe ATS and PRI: the device's cache, its page requests, the OS's queue and threads;
    docs/other-nics.md."""


@section("driver", (page_in.ERR_REGISTRY,))
class DriverConfig(Section):
    """What the operating system does with a page fault of the NI: interrupt handler, tasklet,
    library thread [PART 4.4, 5.2; PSI 3.2, 4]; docs/machine.md."""


@section("firmware", (scheduling.REGISTRY,))
class FirmwareConfig(Section):
    """The R5: window, classes of transfers, queues, timeouts [R5 3]."""


@section("ni")
class NetworkInterfaceConfig(Section):
    """NI FIFO, link and what the NI serves."""


@section("network")
class NetworkConfig(Section):
    """Topology, where ranks stand in it, and whether they share its links; docs/network.md."""


@section("unimem")
class UnimemConfig(Section):
    """Virtualised mailbox, shared memory of the atomic service, buffers of the DMA library;
    docs/unimem.md."""
