"""The command `sangam skew`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sangam.pipelines.commands.options import DataOption, JsonOption, SpecArgument
from sangam.pipelines.console import print_json, quieten, say, table, terminal
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.derived.days import parse_day
from sangam.schemas.errors import UserError

if TYPE_CHECKING:
    from sangam.components.reports.skew import ColumnSkew, FeatureSkew, ScoreSkew, TaskSkew
    from sangam.schemas.derived.days import Day

EPILOG = (
    "Example: sangam skew ranker.yaml --data logs --log requests --date 2024-03-08\n\n"
    "Exit codes: 0 every column and task is within --at-most; 3 one is not; 2 the spec, an option or a file is wrong."
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
        float, typer.Option("--at-most", min=0, max=1, help="Largest share of a column's or task's values that differ.")
    ] = 0.001,
    models: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder of the versions that were served: their scores are compared, too. [default: features alone]",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compares the features that servers saw with those that the spec's tables give, as of each request's time.

    Columns that differ are printed with an example and the likely cause. With --models the logged features are scored
    again with the logged version.
    """
    quieten()
    from sangam.components.skew.checking import check_features
    from sangam.schemas.loading import load_spec

    try:
        day = parse_day(date)
    except ValueError as error:
        raise UserError(f"--date: {error}") from None
    loaded = load_spec(spec)
    redact = loaded.serving.log.redact if loaded.serving.log else {}
    found = check_features(loaded, loaded.logs_with_tables, redact, log, data, day, sample)
    if found is None:
        raise UserError(
            f"--log: has no requests of {day} (got {log}); give the folder of `sangam serve --log`, or --date"
        )
    scores = _scores(log, models, day, sample) if models else None
    beyond = [column for column in found.columns if column.share > at_most]
    wrong = [task for task in scores.tasks if task.share > at_most] if scores else []
    if as_json:
        told: dict[str, Any] = {"features": found.model_dump(), "scores": scores and scores.model_dump()}
        told |= {"at_most": at_most, "beyond": [column.column for column in beyond]}
        print_json(told | {"beyond_scores": [task.task for task in wrong]})
    else:
        _show(found, beyond, at_most)
        if scores:
            _show_scores(scores, wrong, at_most)
    if beyond or wrong:
        raise typer.Exit(ExitCode.REJECTED)


def _scores(log: str, models: Path, day: "Day", sample: int) -> "ScoreSkew | None":
    from sangam.components.skew.rescoring import check_scores

    found = check_scores(log, models, day, sample)
    if found and not found.tasks:
        got = "; ".join(found.left_out)
        raise UserError(f"--models: no request can be scored again (got {got}); give the folder that was served")
    return found


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


def _show_scores(scores: "ScoreSkew", wrong: Sequence["TaskSkew"], at_most: float) -> None:
    shown = table("task", "differ", "of", "served", "again", "largest difference")
    for task in scores.tasks:
        example = task.examples[0] if task.examples else None
        values = (_text(example.served), _text(example.offline)) if example else ("", "")
        shown.add_row(task.task, f"{task.different:,}", f"{task.compared:,}", *values, f"{task.largest:.2g}")
    terminal().print(shown)
    for reason, number in scores.left_out.items():
        say(f"left out  {number:,} candidates: {reason}")
    if wrong:
        keys = ", ".join(f"{name} {value}" for name, value in wrong[0].examples[0].keys.items())
        tasks = ", ".join(task.task for task in wrong)
        say(f"more than {at_most:.2%} of the scores differ: {tasks}; for example {keys}")
    else:
        say(f"no task's scores differ in more than {at_most:.2%}")


def _text(value: object) -> str:
    text = "-" if value is None or value == [] else str(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."
