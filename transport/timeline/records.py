"""What a rank has left of its trace: the file of node_trace.h as arrays.

The records stand in the order in which they were made; their times may go back. A file is mapped,
not read: what is needed of it comes in page by page.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from pagewire.native import ffi
from pagewire.native.output import OutputError

RECORD = np.dtype(
    [("time_ns", "<i8"), ("kind", "<u4"), ("peer", "<u4"), ("a", "<u8"), ("b", "<u8")]
)
KINDS: dict[str, int] = {
    name.removeprefix("PW_TRACE_"): value
    for enum in ("enum pw_trace_kind", "enum pw_trace_detail")
    for value, name in ffi.typeof(enum).elements.items()
}
NO_CALL = 2**32 - 1
"""In a CALL: a call that is none of MPI."""


class Records:
    """One rank's. `rows` has the fields of RECORD, with the times that the records had at last."""

    def __init__(self, path: str) -> None:
        self.rows: Any = np.zeros(0, RECORD)
        try:
            num_bytes = os.path.getsize(path)
            if num_bytes:
                self.rows = np.memmap(path, RECORD, "c", shape=num_bytes // RECORD.itemsize)
        except OSError as error:
            raise OutputError(f"run.trace: '{path}' cannot be read: {error.strerror}") from None
        moved = self.of("MOVED")
        self.rows["time_ns"][self.rows["a"][moved]] = self.rows["time_ns"][moved]

    def of(self, *names: str) -> Any:
        """Numbers of the records of these kinds, in their order."""
        return np.flatnonzero(np.isin(self.rows["kind"], [KINDS[name] for name in names]))

    def spans(self, *names: str) -> tuple[Any, Any, Any]:
        """Numbers, starts and ends of the spans of these kinds."""
        idx = self.of(*names)
        starts = self.rows["time_ns"][idx]
        return idx, starts, starts + self.rows["a"][idx].astype(np.int64)

    def call_names(self) -> dict[int, str]:
        """Names of the MPI calls by their index."""
        return self._names("CALL_NAME")

    def region_names(self) -> dict[int, str]:
        """Paths of the program's regions by their row."""
        return self._names("REGION_NAME")

    def _names(self, kind: str) -> dict[int, str]:
        parts: dict[int, dict[int, bytes]] = {}
        for row in self.rows[self.of(kind)]:
            text = int(row["a"]).to_bytes(8, "little") + int(row["b"]).to_bytes(8, "little")
            parts.setdefault(int(row["peer"]), {})[int(row["time_ns"])] = text
        return {
            idx: b"".join(text[part] for part in sorted(text))
            .split(b"\0")[0]
            .decode(errors="replace")
            for idx, text in parts.items()
        }
