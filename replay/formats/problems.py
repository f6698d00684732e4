"""What a conversion cannot do: listed with counts and places before anything is written."""

from pagewire.replay.records import TraceError

_PLACES = 5
"""That a sentence names."""


class Problems:
    """Counts by what they are; `notes` are told and refuse nothing."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, list[str]]] = {}
        self._notes: dict[str, int] = {}

    def add(self, what: str, place: str) -> None:
        count, places = self._found.get(what, (0, []))
        if count < _PLACES:
            places.append(place)
        self._found[what] = count + 1, places

    def note(self, what: str, count: int = 1) -> None:
        self._notes[what] = self._notes.get(what, 0) + count

    def sentences(self) -> list[str]:
        return [
            f"{what}: {count:,} times, {', '.join(places)}{' ...' if count > len(places) else ''}"
            for what, (count, places) in self._found.items()
        ]

    def notes(self) -> list[str]:
        return [f"{what}: {count:,}" for what, count in self._notes.items()]

    def refuse(self, *, skips: bool) -> None:
        """Raise TraceError with all that cannot be done, unless it is to be left out."""
        if self._found and not skips:
            raise TraceError(
                f"cannot be converted: {'; '.join(self.sentences())}. --skip-unsupported leaves "
                "these out"
            )
