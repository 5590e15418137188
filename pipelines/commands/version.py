"""The command `sangam version`, and the option `--version`."""

from typing import Annotated

import typer

from pipelines.console import say

EPILOG = "Example: sangam version"


def version() -> None:
    """Prints the version and the commit of the code."""
    from pipelines.provenance import VERSION, code_folder, git_commit

    say(f"sangam {VERSION} {git_commit(code_folder()) or ''}".rstrip())


def _print_and_exit(is_wanted: bool) -> None:
    if is_wanted:
        version()
        raise typer.Exit


VersionOption = Annotated[
    bool,
    typer.Option("--version", callback=_print_and_exit, is_eager=True, help="Print the version and the commit."),
]
