"""The command `sangam`. Nothing here imports TensorFlow before a command needs it: checking a spec stays quick."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from schemas.errors import UserError

USAGE = 2
"""Exit code of a mistake in what the user gave."""

app = typer.Typer(
    name="sangam",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Trains, judges and pushes multi-task rankers that are declared in one YAML file.",
)

SpecArgument = Annotated[Path, typer.Argument(metavar="SPEC", help="The ranker's YAML file.")]


def main() -> None:
    """Runs the command line; the entry point of `sangam`."""
    # TensorFlow 2.16 picks its Keras when it is imported; children inherit the choice.
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    try:
        app()
    except UserError as error:
        Console(stderr=True).print(str(error), markup=False, highlight=False, soft_wrap=True)
        sys.exit(USAGE)


@app.command(epilog="Example: sangam validate pipelines/specs/short_video.yaml")
def validate(spec: SpecArgument) -> None:
    """Checks a spec: prints every mistake with its line, the value got and what is allowed."""
    from schemas.loading import load_spec
    from schemas.spec import digest

    loaded = load_spec(spec)
    counts = (
        f"{len(loaded.features)} features, {len(loaded.tables)} tables, "
        f"{len(loaded.tasks)} tasks, {len(loaded.gates)} gates"
    )
    _say(f"ok {loaded.name} {digest(loaded)} ({counts})")


@app.command(
    epilog="Example: sangam run pipelines/specs/short_video.yaml --date 2024-03-07 --data demo/logs --root demo/root\n\n"
    "Exit codes: 0 the model is blessed; 3 the run worked, but a gate refused the model; 1 the run failed; "
    "2 the command was given something wrong; 130 or 143 the run was stopped."
)
def run(
    spec: SpecArgument,
    data: Annotated[Path, typer.Option(help="Folder of the logs; the spec's file patterns are relative to it.")],
    root: Annotated[Path, typer.Option(help="Folder for everything the run leaves; created where it does not exist.")],
    date: Annotated[
        str | None, typer.Option(metavar="YYYY-MM-DD", help="Last day to evaluate on. Only for logs by day.")
    ] = None,
) -> None:
    """Runs the whole pipeline on this machine: ingest, validate, transform, train, judge, push.

    Steps that an earlier run on the same root has finished, with the same inputs and code, are taken from there; a run
    that was killed goes on where it was. A summary of the run is written to ROOT/runs/RUN/summary.json.
    """
    from pipelines.local.request import check_request
    from pipelines.runs import run_and_report
    from schemas.loading import load_spec

    raise typer.Exit(run_and_report(check_request(load_spec(spec), date, data, root)))


@app.command(epilog="Example: sangam schema > ranker.schema.json")
def schema() -> None:
    """Prints the JSON Schema of a spec file, for editors."""
    from schemas.loading import json_schema

    print(json.dumps(json_schema(), indent=2))


def _say(text: str) -> None:
    Console().print(text, markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
