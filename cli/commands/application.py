"""The application that the modules of commands add theirs to."""

from typing import Annotated

import typer

app = typer.Typer(
    name="pagewire",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    epilog="Exit codes: 0 done; 1 it failed, or a check did; 2 the words or a setting cannot be "
    "used; 128 + N ended by signal N; a run has that of the rank that failed first. Colors: "
    "NO_COLOR=1 for none.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        import importlib.metadata  # slow to load

        print(f"pagewire {importlib.metadata.version('pagewire')}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", help="print the version", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    """Run MPI programs on an emulated RDMA network interface with page-fault handling."""
