"""The command `sangam init`."""

from pathlib import Path
from typing import Annotated

import typer

from sangam.pipelines.commands.options import JsonOption
from sangam.pipelines.console import print_json

EPILOG = (
    "Example: sangam init logs --output spec.yaml --label clicked --label purchased\n\n"
    "Exit codes: 0 the draft is written, and valid; 2 the logs or an option are wrong, or no column looks like a label."
)


def init(
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help="Folder of the logs, or one file, or the s3:// or gs:// address of one."),
    ],
    output: Annotated[Path, typer.Option(metavar="SPEC", help="The YAML file to write.")],
    label: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="A column of what to predict; repeat it for more. Left out: columns of 0 and 1 that look like it.",
        ),
    ] = None,
    name: Annotated[
        str, typer.Option(help="Name of the ranker. Left out: as the file, or for spec.yaml the folder.")
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace the file of the spec.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Drafts a spec from logs: reads some of their rows, guesses what each column is, and says why in comments.

    It reads Parquet, CSV, JSON Lines and TFRecord: by day, in splits named train and test, or as one table. Of many
    files it reads some rows of the first day, the last and those between. Columns that tell a label are left out of
    the features. docs/first_spec.md has the rules.
    """
    from sangam.pipelines.drafting.output import document, print_draft, write_draft

    made = write_draft(data, output, label or [], name, force=force)
    if as_json:
        print_json(document(made, output))
    else:
        print_draft(made, output)
