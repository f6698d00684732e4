"""What is closed at the end of a `with` block."""

from __future__ import annotations

import abc
from typing import Self


class Closing(abc.ABC):
    """A context manager of itself that closes, however the block ends."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @abc.abstractmethod
    def close(self) -> None:
        """Give back what it holds."""
