"""What can go wrong in a melt."""

from pagewire.apps.errors import AppError


class LostAtomsError(AppError):
    """The ranks together hold another number of atoms than were created."""


class NotFiniteError(AppError):
    """An energy is infinite or no number."""
