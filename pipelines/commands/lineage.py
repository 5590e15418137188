"""The command `sangam lineage`."""

from pathlib import Path
from typing import Annotated

import typer

from sangam.pipelines.commands.options import JsonOption
from sangam.pipelines.console import print_json, terminal

EPILOG = "Example: sangam lineage runs/serving/short_video/20240307001"


def lineage(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Folder of a pushed version, or a run, as in `sangam show`.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Prints where a model comes from: days with digests, spec, code, run, the chain of bases, who blessed it."""
    from sangam.pipelines.history.lineage import lineage_of, print_lineage

    found = lineage_of(model)
    if as_json:
        print_json(found.document())
    else:
        print_lineage(found, terminal())
