"""The command `sangam skew`."""

from typing import TYPE_CHECKING, Annotated

import typer

from sangam.pipelines.commands.options import DataOption, JsonOption, SpecArgument
from sangam.pipelines.console import print_json, quieten, say, table, terminal
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.derived.days import parse_day
from sangam.schemas.errors import UserError

if TYPE_CHECKING:
    from sangam.components.reports.skew import ColumnSkew, FeatureSkew

EPILOG = (
    "Example: sangam skew ranker.yaml --data logs --log requests --date 2024-03-08\n\n"
    "Exit codes: 0 every column is within --at-most; 3 one is not; 2 the spec, an option or a file is wrong."
)
_SHOWN_CHARACTERS = 40


def skew(
    spec: SpecArgument,
    data: DataOption,
    log: Annotated[
        str, typer.Option("--log", metavar="FOLDER", help="Folder of `sangam serve --log`, or its address.")
    ],
    date: Annotated[str, typer.Option("--date", metavar="YYYY-MM-DD", help="Day of the requests, UTC.")],
    sample: Annotated[int, typer.Option("--sample", min=1, help="Number of requests that are compared.")] = 1000,
    at_most: Annotated[
        float, typer.Option("--at-most", min=0, max=1, help="Largest share of a column's values that may differ.")
    ] = 0.001,
    as_json: JsonOption = False,
) -> None:
    """Compares the features that servers saw with those that the spec's tables give, as of each request's time.

    Columns that differ are printed with an example and the likely cause.
    """
    quieten()
    from sangam.components.skew.checking import check_features
    from sangam.schemas.loading import load_spec

    try:
        day = parse_day(date)
    except ValueError as error:
        raise UserError(f"--date: {error}") from None
    found = check_features(load_spec(spec), log, data, day, sample)
    beyond = [column for column in found.columns if column.share > at_most]
    if as_json:
        print_json(found.model_dump() | {"at_most": at_most, "beyond": [column.column for column in beyond]})
    else:
        _show(found, beyond, at_most)
    if beyond:
        raise typer.Exit(ExitCode.REJECTED)


def _show(found: "FeatureSkew", beyond: list["ColumnSkew"], at_most: float) -> None:
    shown = table("column", "differ", "of", "served", "offline", "likely cause")
    for column in found.columns:
        example, cause = column.examples[0] if column.examples else None, column.cause
        shown.add_row(
            column.column,
            f"{column.different:,}",
            f"{column.compared:,}",
            _text(example.served) if example else "",
            _text(example.offline) if example else "",
            f"{cause.kind}: {cause.detail}".rstrip(": ") if cause else "",
        )
    terminal().print(shown)
    if beyond:
        example = beyond[0].examples[0]
        keys = ", ".join(f"{name} {value}" for name, value in example.keys.items())
        say(f"more than {at_most:.2%} differ: {', '.join(column.column for column in beyond)}; for example {keys}")
    else:
        say(f"no column differs in more than {at_most:.2%} of {found.rows:,} candidates")


def _text(value: object) -> str:
    text = "-" if value is None or value == [] else str(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
