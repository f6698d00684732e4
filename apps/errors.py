"""The errors of the mini-apps. Every rank raises them together, so none needs `MPI_Abort`."""


class AppError(Exception):
    """Something that all ranks know of in the same place; rank 0 prints it."""

    exit_code = 1


class InputError(AppError):
    """A bad option: the message names value, limit and remedy."""

    exit_code = 2
