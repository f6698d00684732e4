"""A soak without ranks: the nodes of a run in this process, by the C interface. They write to and
read from each other in bursts, and every byte is compared.

    python -m pagewire.cli.checks.soak.nodes NODES SPEC [section.name=value]...

Prints one line of JSON, and leaves with 1 and a sentence when a call failed.
"""

import json
import random
import sys
from collections.abc import Sequence
from typing import Any

from pagewire.cli.checks.soak.bursts import Bursts
from pagewire.lab.buffer import PAGE_BYTES, Buffer
from pagewire.lab.transfer import random_pages
from pagewire.native import ffi, lib

BURST = 8
"""Operations of a node that are under way together."""
MAX_BYTES = 40_000
SLOT_BYTES = 49_152
PATTERN_BYTES = 1 << 20
_REASON_BYTES = 512


class Nodes(Bursts):
    """All nodes of a run, each with a pattern that it writes and that is read from it."""

    def __init__(self, num_nodes: int, spec: dict[str, Any], settings: Sequence[str]) -> None:
        super().__init__(BURST * num_nodes)
        self._random = random.Random(spec["seed"])
        self._absent_part = float(spec["fault_fraction"])
        self._nodes = _create(num_nodes, settings)
        pattern_bytes = PATTERN_BYTES + MAX_BYTES
        self._patterns = [
            ffi.new("uint8_t[]", self._random.randbytes(pattern_bytes)) for _ in self._nodes
        ]
        self._keys = ffi.new("uint64_t[]", num_nodes)
        for node, pattern in enumerate(self._patterns):
            code = lib.pagewire_register(
                self._nodes[node], pattern, pattern_bytes, self._keys + node
            )
            self._check(node, "register", code)
        self._memory = Buffer(self.num_a_burst * SLOT_BYTES)
        self._slots = ffi.cast("uint8_t *", self._memory.address)
        """One for each operation of a burst, which arrives in it."""
        self._operations = ffi.new("pagewire_operation *[]", self.num_a_burst)
        self._completion = ffi.new("pagewire_completion *")

    def _check(self, node: int, what: str, code: int) -> None:
        if code < 0:
            _fail(what, lib.pagewire_reason(self._nodes[node]))

    def burst(self, number: int) -> None:
        """From every node, to and from others."""
        posted = [
            (node, *self._post(node, node * BURST + idx))
            for idx in range(BURST)
            for node in range(len(self._nodes))
        ]
        for node, operation, _, _, _ in posted:
            code = lib.pagewire_wait(self._nodes[node], operation, self._completion, -1)
            self._check(node, "wait", code)
            if self._completion.error:
                _fail("transfer", lib.pagewire_error_text(self._completion.error))
            self.num_transfers += 1
        for _, _, arrived, due, num_bytes in posted:
            self.num_wrong += ffi.buffer(arrived, num_bytes)[:] != ffi.buffer(due, num_bytes)[:]
            arrived[0] ^= 0xFF  # what is not written next time must not look right

    def _post(self, node: int, slot: int) -> tuple[Any, Any, Any, int]:
        """The operation, where its bytes arrive and where they come from, and how many."""
        rng = self._random
        peer = (node + rng.randrange(1, len(self._nodes))) % len(self._nodes)
        # Small ones are the most, as in programs.
        num_bytes = rng.randint(1, min(1 << rng.randrange(17), MAX_BYTES))
        absent = random_pages(num_bytes, self._absent_part, rng)
        self._memory.drop(slot * SLOT_BYTES // PAGE_BYTES + page for page in absent)
        self.num_dropped += len(absent)
        to = self._slots + (slot * SLOT_BYTES + rng.randrange(64))
        is_read = rng.random() < 0.5
        due = self._patterns[peer if is_read else node] + rng.randrange(PATTERN_BYTES)
        far = int(ffi.cast("uintptr_t", due if is_read else to))
        operation = self._operations + slot
        rest = (num_bytes, ffi.NULL, operation)
        if is_read:
            code = lib.pagewire_read(self._nodes[node], peer, far, self._keys[peer], to, *rest)
        else:
            code = lib.pagewire_write(self._nodes[node], peer, due, far, *rest)
        self._check(node, "transfer", code)
        return operation, to, due, num_bytes

    def pools(self) -> dict[str, int]:
        """Operations that are not over, and registrations."""
        return {"pool_pending": sum(map(lib.pagewire_num_pending, self._nodes))}

    def counters(self) -> dict[str, int]:
        """Sums over the nodes."""
        count = lib.pagewire_num_counters()
        names = [ffi.string(lib.pagewire_counter_name(idx)).decode() for idx in range(count)]
        of_nodes = []
        for node in self._nodes:
            values = ffi.new("uint64_t[]", count)
            lib.pagewire_read_counters(node, values, count)
            of_nodes.append(values)
        return dict(zip(names, map(sum, zip(*of_nodes, strict=True)), strict=True))


def _create(num_nodes: int, settings: Sequence[str]) -> list[Any]:
    options, network = ffi.new("pagewire_options *"), ffi.new("pagewire_network **")
    lib.pagewire_options_default_sized(options, ffi.sizeof("pagewire_options"))
    code = lib.pagewire_network_create(num_nodes, network)
    if code < 0:
        _fail("network", lib.pagewire_error_text(code))
    texts = [ffi.new("char[]", text.encode()) for text in settings]
    all_texts, reason = ffi.new("char *[]", [*texts, ffi.NULL]), ffi.new("char[]", _REASON_BYTES)
    options.network, options.num_nodes, options.settings = network[0], num_nodes, all_texts
    options.reason, options.reason_bytes = reason, _REASON_BYTES
    nodes = ffi.new("pagewire_node *[]", num_nodes)
    for idx in range(num_nodes):
        options.node = idx
        if lib.pagewire_node_create(options, nodes + idx) < 0:
            _fail("node", reason)
    return list(nodes)


def _fail(what: str, why: Any) -> None:
    raise SystemExit(f"pagewire soak: {what}: {ffi.string(why).decode(errors='replace')}")


if __name__ == "__main__":
    wanted = json.loads(sys.argv[2])
    all_nodes = Nodes(int(sys.argv[1]), wanted, sys.argv[3:])
    found = all_nodes.run(wanted["transfers"], wanted["samples"], wanted["minutes"] * 60.0)
    print(json.dumps({**found, "counters": all_nodes.counters()}))
