"""Settings of the mailbox hardware and of what a node gives to Unimem. docs/unimem.md."""

import dataclasses

from pagewire.native import lib
from pagewire.native.settings import none_as, setting, validate


@dataclasses.dataclass(frozen=True, slots=True)
class UnimemConfig:
    """Virtualised mailbox, shared memory of the atomic service, buffers of the DMA library."""

    fifo_words: int = setting(
        512,
        "words of 128 bits that each of the 64 FIFOs of a node's mailbox holds; an even number, or "
        "a request of two words can be cut in half; the sources do not give it",
        unit="words",
        minimum=1,
        maximum=65536,
        engine="mailbox_fifo_words",
    )
    bursts: str = setting(
        "hardware",
        "a burst that finds room for some of its words: hardware: these are kept, the others lost, "
        "the answer is positive; whole: it is refused",
        choices={"hardware": int(lib.PW_BURSTS_HARDWARE), "whole": int(lib.PW_BURSTS_WHOLE)},
        engine="mailbox_bursts",
    )
    memory_bytes: int = setting(
        64 << 20,
        "memory that a node gives to shared pages",
        kind="size",
        minimum=4096,
        maximum=1 << 40,
        engine="shared_memory_bytes",
    )
    dma_buffer_bytes: int | None = setting(
        256 << 20,
        "the longest buffer of the DMA library on a node, the prototype's; none: 4 GiB - 1, what a "
        "descriptor can say",
        kind="size",
        minimum=1,
        maximum=(1 << 32) - 1,
        none_allowed=True,
        engine="dma_buffer_bytes",
        encode=none_as(-1),
    )
    dma_buffers: int | None = setting(
        1,
        "buffers of the DMA library on a node at a time, whoever has allocated them; the prototype "
        "had one; none: no limit",
        unit="buffers",
        minimum=1,
        maximum=1 << 20,
        none_allowed=True,
        engine="dma_buffers",
        encode=none_as(-1),
    )

    def __post_init__(self) -> None:
        validate("unimem", self)
