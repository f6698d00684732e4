"""The errors of the mini-app. Every rank raises them together, so none needs `MPI_Abort`."""


class LammpsError(Exception):
    """Something that all ranks know of in the same place; rank 0 prints it."""

    exit_code = 1


class InputError(LammpsError):
    """A bad option: the message names value, limit and remedy."""

    exit_code = 2


class LostAtomsError(LammpsError):
    """The ranks together hold another number of atoms than were created."""


class NotFiniteError(LammpsError):
    """An energy is infinite or no number."""
