"""What the command lines of the mini-apps have in common: errors that name value, limit, remedy."""

import argparse
from typing import NoReturn

from pagewire.apps.errors import InputError


def require(holds: bool, what: str, value: object, limit: str, remedy: str) -> None:
    """Raise InputError unless it holds."""
    if not holds:
        raise InputError(f"{what} is {value}; allowed: {limit}. Remedy: {remedy}.")


class Parser(argparse.ArgumentParser):
    """Raises InputError instead of printing, as only rank 0 may print."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}. Remedy: see --help.")
