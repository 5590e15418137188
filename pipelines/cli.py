"""The command `sangam`. Nothing here imports TensorFlow before a command needs it: checking a spec stays quick."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.markup import escape

from pipelines.commands import backfill as backfill_command
from pipelines.commands import compile as compiling
from pipelines.commands import deploy, retire, rollback, runs, serve, status, tune
from pipelines.local.result import alert as alerting
from pipelines.schedule import commands as schedule
from schemas.contracts.exit_codes import ExitCode
from schemas.errors import UserError

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
        sys.exit(ExitCode.MISTAKE)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        from pipelines.provenance import VERSION, code_folder, git_commit

        _say(f"sangam {VERSION} {git_commit(code_folder()) or ''}".rstrip())
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and the commit."),
    ] = False,
) -> None:
    del version  # Its callback has printed it.


@app.command(epilog="Example: sangam validate pipelines/specs/short_video.yaml --base demo/root")
def validate(
    spec: SpecArgument,
    base: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN|ROOT", help="Also print what an incremental training would keep of a root's base, or a run's."
        ),
    ] = None,
) -> None:
    """Checks a spec: prints every mistake with its line, the value got and what is allowed."""
    from schemas.loading import load_spec
    from schemas.spec import digest

    loaded = load_spec(spec)
    counts = (
        f"{len(loaded.features)} features, {len(loaded.tables)} tables, "
        f"{len(loaded.tasks)} tasks, {len(loaded.gates)} gates"
    )
    _say(f"ok {loaded.name} {digest(loaded)} ({counts})")
    if base is not None:
        from pipelines.checks.base import difference, find_base, sentences

        for sentence in sentences(loaded, difference(loaded, find_base(base, loaded.name))):
            _say(sentence)


@app.command(
    epilog="Example: sangam run pipelines/specs/short_video.yaml --date 2024-03-07 --data demo/logs "
    "--root demo/root\n\n"
    "Exit codes: 0 the model is blessed; 3 the run worked, but a gate refused the model; 1 the run failed; "
    "2 something given is wrong: the spec, the date, the logs; 4 another run is using the root; "
    "130 or 143 the run was stopped."
)
def run(
    spec: SpecArgument,
    data: Annotated[Path, typer.Option(help="Folder of the logs; the spec's file patterns are relative to it.")],
    root: Annotated[Path, typer.Option(help="Folder for everything the run leaves; created where it does not exist.")],
    date: Annotated[
        str | None, typer.Option(metavar="YYYY-MM-DD", help="Last day to evaluate on. Only for logs by day.")
    ] = None,
    reread: Annotated[
        bool,
        typer.Option(
            "--reread",
            help="Read every file of the logs anew to see whether it has changed, also those of known size and time.",
        ),
    ] = False,
) -> None:
    """Runs the whole pipeline on this machine: ingest, validate, transform, train, judge, push.

    Steps that an earlier run on the same root has finished, with the same inputs and code, are taken from there; a run
    that was killed goes on where it was. A summary of the run is written to ROOT/runs/RUN/summary.json.
    """
    from components.steps.example_gen.files.digests import forget
    from pipelines.local.request import check_request
    from pipelines.local.terminal import run_and_report
    from schemas.loading import load_spec

    try:
        request = check_request(load_spec(spec), date, data, root)
        if reread:
            forget(request.root)
    except KeyboardInterrupt:
        Console(stderr=True).print("stopped before the run had begun")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    raise typer.Exit(run_and_report(request))


app.command(epilog=backfill_command.EPILOG)(backfill_command.backfill)
app.command(epilog=tune.EPILOG)(tune.tune)


@app.command(epilog='Example: sangam bless ROOT/runs/20240307T101500-1a2b3c4d --because "the tab is being retired"')
def bless(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder, ROOT/runs/RUN, or the summary in it.")],
    because: Annotated[str, typer.Option(help="The reason, for whoever asks later.")],
) -> None:
    """Blesses and pushes a model that a quality gate has refused, on your word.

    Who, when, why and of which run is recorded in ML Metadata, in the registry of blessings and in the pushed version's
    manifest. A failed serving check cannot be overridden, nor can scores that are no numbers.
    """
    import datetime

    _quieten()
    from pipelines.local.bless import bless as bless_run
    from pipelines.local.bless import person

    done = bless_run(run, because=because, by=person(), now=datetime.datetime.now(datetime.timezone.utc))
    _say(f"{'blessed already' if done.was_there else 'blessed'} {done.run} by {done.by}, because {done.because}")
    for sentence in done.overridden:
        _say(f"overridden: {sentence}")
    _say(done.place())


app.command(epilog=serve.EPILOG)(serve.serve)
app.command(epilog=rollback.EPILOG)(rollback.rollback)
app.command(epilog=deploy.EPILOG)(deploy.deploy)
app.command(epilog=status.EPILOG)(status.status)
app.command(epilog=runs.EPILOG)(runs.runs)
app.command(epilog=retire.EPILOG)(retire.retire)
app.command(name="alert-test", epilog=alerting.EPILOG)(alerting.alert_test)
app.add_typer(schedule.app, name="schedule")


app.command(name="compile", epilog=compiling.EPILOG)(compiling.compile_)


@app.command(epilog="Example: sangam generate --output demo/logs --first-day 2024-03-01 --days 7 --rows-per-day 20000")
def generate(
    output: Annotated[Path, typer.Option(help="Folder for the logs: one folder YYYY-MM-DD per day.")],
    first_day: Annotated[str, typer.Option(metavar="YYYY-MM-DD", help="The first day.")] = "2024-03-01",
    days: Annotated[int, typer.Option(min=1, help="Number of days.")] = 7,
    rows_per_day: Annotated[int, typer.Option(min=1, help="Rows of a day.")] = 20_000,
    users: Annotated[int, typer.Option(min=1, help="Users of the first day; new ones come every day.")] = 2_000,
    posts: Annotated[int, typer.Option(min=1, help="Posts of the first day; new ones come every day.")] = 5_000,
    seed: Annotated[int, typer.Option(min=0, help="Equal seeds make equal logs.")] = 1,
    format_: Annotated[
        Literal["parquet", "csv", "tfrecord"], typer.Option("--format", help="Of the files.")
    ] = "parquet",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace days that hold other logs.")] = False,
) -> None:
    """Generates seeded logs of a feed of short videos, for the spec pipelines/specs/short_video.yaml."""
    from schemas.derived.days import parse_day

    try:
        first = parse_day(first_day)
    except ValueError as error:
        raise UserError(f"--first-day: {error}") from None
    _quieten()
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from pipelines.synthetic import generate as generate_logs

    columns = (TextColumn("generating"), BarColumn(), MofNCompleteColumn(), TextColumn("days"))
    # Off a terminal a bar would be noise: the last line says it all.
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("days", total=days)
        folders = generate_logs(
            output,
            first_day=first,
            num_days=days,
            rows_per_day=rows_per_day,
            num_users=users,
            num_posts=posts,
            seed=seed,
            file_format=format_,
            overwrite=overwrite,
            progress=lambda day, rows: bar.advance(task),
        )
    _say(f"wrote {days} days of {rows_per_day} rows: {folders[0]} to {folders[-1].name}")


@app.command(epilog="Example: sangam plan pipelines/specs/short_video.yaml --rows users=80e6,posts=55e6 --ranks 8")
def plan(
    spec: SpecArgument,
    rows: Annotated[
        str, typer.Option(help="Rows by table: users=80e6,posts=55M. Tables left out: the rows of their capacity.")
    ] = "",
    ranks: Annotated[int | None, typer.Option(min=1, help="Left out: cluster.ranks of the spec.")] = None,
    memory_per_rank: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="For example 64GB. Left out: this machine's, shared by the ranks."),
    ] = None,
    ranks_per_host: Annotated[
        int | None, typer.Option(min=1, help="Also print what a host of so many ranks needs.")
    ] = None,
) -> None:
    """Prints the memory that a ranker takes, by table and by rank; exits with 2 if it does not fit."""
    import pipelines.checks.plan as printing
    from schemas.derived.plan import plan as plan_of
    from schemas.loading import load_spec
    from schemas.quantities import parse_bytes, parse_rows

    loaded = load_spec(spec)
    made = plan_of(loaded, rows=parse_rows("--rows", rows), ranks=ranks or loaded.cluster.ranks)
    if memory_per_rank is None:
        room = printing.this_machine(ranks_per_host or made.ranks)
    else:
        room = printing.Room(parse_bytes("--memory-per-rank", memory_per_rank), "given as --memory-per-rank")
    printing.print_plan(
        made, room, Console(highlight=False, width=None if sys.stdout.isatty() else 200), ranks_per_host
    )
    printing.refuse_unfit(made, room)
    _say("it fits")


@app.command(epilog="Example: sangam doctor")
def doctor() -> None:
    """Checks that this machine can run a pipeline, and says how to mend what is wrong."""
    from pipelines.checks.doctor import examine

    console, wrong = Console(highlight=False), 0
    for finding in examine():
        wrong += not finding.is_ok
        mark = "[green]ok   [/]" if finding.is_ok else "[red]wrong[/]"
        console.print(f"{mark} {finding.name:<10} {escape(finding.detail)}", soft_wrap=True)
        if finding.fix:
            console.print(f"      {'':<10} fix: {escape(finding.fix)}", soft_wrap=True)
    raise typer.Exit(ExitCode.FAILED if wrong else ExitCode.DONE)


@app.command(epilog="Example: sangam version")
def version() -> None:
    """Prints the version and the commit of the code."""
    _print_version(is_wanted=True)


@app.command(epilog="Example: sangam schema > ranker.schema.json")
def schema() -> None:
    """Prints the JSON Schema of a spec file, for editors."""
    from schemas.loading import json_schema

    print(json.dumps(json_schema(), indent=2))


def _say(text: str) -> None:
    Console().print(text, markup=False, highlight=False, soft_wrap=True)


def _quieten() -> None:
    from pipelines.local.output import quieten

    quieten()


if __name__ == "__main__":
    main()
