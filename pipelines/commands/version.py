"""The command `sangam version`, and the option `--version`."""

from typing import Annotated

import typer

from sangam.pipelines.commands.options import JsonOption
from sangam.pipelines.console import print_json, say

EPILOG = "Example: sangam version"


def version(as_json: JsonOption = False) -> None:
    """Prints the version and the commit of the code."""
    from sangam.pipelines.provenance import VERSION, code_folder, git_commit

    commit = git_commit(code_folder())
    if as_json:
        print_json({"version": VERSION, "commit": commit})
    else:
        say(f"sangam {VERSION} {commit or ''}".rstrip())


def _print_and_exit(is_wanted: bool) -> None:
    if is_wanted:
        version()
        raise typer.Exit


VersionOption = Annotated[
    bool,
    typer.Option("--version", callback=_print_and_exit, is_eager=True, help="Print the version and the commit."),
]
