"""`pagewire test --policy module:Class`: is this page-in policy one that can be used?

First the made-up faults of `pagewire.smmu.conformance`, then two engines that move real data with it.
"""

from collections.abc import Callable, Iterator

from pagewire.cli.experiments.rig import PAGE_BYTES, Rig, all_pages
from pagewire.native.settings import ConfigError
from pagewire.smmu import conformance, policy
from pagewire.transport import config

SIZES = (1, PAGE_BYTES, 3 * PAGE_BYTES + 1, 100_000, 1 << 20)
SETTINGS = (
    (),
    ("run.timeout=none",),
    ("run.timeout=100us", "smmu.hupcf=0"),
    ("smmu.page_in=touch-a-page",),
)


def main(name: str) -> int:
    """Check one policy and print what was found; 0 when it can be used."""
    if policy.is_built_in(name):
        raise ConfigError(
            f"--policy {name}: it is the engine's own; give one's own as module:Class"
        )
    config.load([f"run.policy={name}"], environ={})
    found = policy.load_class(name)
    policy.load(name)
    print(f"policy {name}")
    print("ok      is made without arguments")
    checks: dict[str, Callable[[], str]] = {
        "raises nothing, and its answers hold the faulting page": lambda: _answers(found),
        "gives the same answers to the same questions": lambda: _repeats(found),
        "brings every byte through": lambda: _move(name),
    }
    for text, check in checks.items():
        try:
            how = check()
        except Exception as error:  # noqa: BLE001, a user's code may raise anything
            print(f"FAILED  {text}: {error}")
            return 1
        print(f"ok      {text} ({how})")
    return 0


def _answers(found: type[policy.PageInPolicy]) -> str:
    return f"{len(conformance.answers(found()))} faults"


def _repeats(found: type[policy.PageInPolicy]) -> str:
    return f"{conformance.check_policy(found)} faults, twice"


def _move(name: str) -> str:
    """Transfers on two engines; the rig compares the bytes and sees that nothing is left over."""
    num_transfers = 0
    for settings in SETTINGS:
        loaded = config.load([f"run.policy={name}", *settings], environ={})
        rig = Rig(loaded, SIZES[-1])
        for num_bytes in SIZES:
            for operation in ("write", "read"):
                for source, destination in _absent(num_bytes):
                    if source and loaded.run.timeout_ns is None:
                        continue  # only the timeout recovers from a fault at the source
                    rig.transfer(
                        num_bytes,
                        operation=operation,
                        source_absent=source,
                        destination_absent=destination,
                    )
                    num_transfers += 1
    return f"{num_transfers} transfers of 1 B to 1 MiB"


def _absent(num_bytes: int) -> Iterator[tuple[list[int], list[int]]]:
    """Pages that are absent at the source and at the destination."""
    pages = list(all_pages(num_bytes))
    yield [], pages
    yield [], pages[::3]
    yield pages[-1:], []
    yield pages[::5], pages[1::2]
