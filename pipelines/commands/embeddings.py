"""The command `sangam embeddings`."""

from pathlib import Path
from typing import Annotated

import typer

from sangam.pipelines.commands.options import JsonOption
from sangam.pipelines.commands.predict import MODEL_HELP
from sangam.pipelines.console import print_json, quieten, say, table, terminal
from sangam.schemas.errors import UserError

EPILOG = (
    "Example: sangam embeddings ROOT posts --output posts.parquet\n\n"
    "Exit codes: 0 done; 2 the model, the table or an option is wrong, or the model keeps no ids."
)


def embeddings(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP)],
    name: Annotated[str, typer.Argument(metavar="TABLE", help="Table of the spec.")],
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File for ids and vectors: .parquet, or .arrow for an index of neighbors."),
    ] = None,
    nearest: Annotated[str, typer.Option(metavar="ID,...", help="Print the ids that are nearest to these.")] = "",
    k: Annotated[int, typer.Option(help="With --nearest: number of ids to print for each.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """Writes the vectors of a table's ids, or prints the ids that are nearest to a few, by cosine.

    The spec must have `export: {ids: true}`: rows themselves lie under hashes of their ids.
    """
    if output is None and not nearest:
        raise UserError("--output: is missing (got neither it nor --nearest); give a file, or ids")
    quieten()
    from sangam.components.model.model import load

    found = load(model).embeddings(name)
    near = found.nearest([each for each in nearest.split(",") if each], k) if nearest else None
    if output:
        found.write(output)
    if as_json:
        print_json(
            {
                "table": name,
                "ids": len(found),
                "rows": found.num_rows,
                "dim": found.vectors.shape[1],
                "file": output and str(output),
                "nearest": [] if near is None else near.to_dict("records"),
            }
        )
        return
    if near is not None:
        shown = table("id", "nearest", "cosine")
        for each in near.itertuples():
            shown.add_row(str(each.id), str(each.nearest), f"{each.cosine:.4f}")
        terminal().print(shown)
    if output:
        without = f"; {found.num_rows - len(found)} rows have no known id" if found.num_rows > len(found) else ""
        say(f"{output}: {len(found):,} vectors of {found.vectors.shape[1]} floats{without}")
