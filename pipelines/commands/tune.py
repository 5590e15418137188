"""The command `sangam tune`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from sangam.pipelines.commands.options import DataOption, JsonOption, RootOption
from sangam.pipelines.console import print_json, terminal

EPILOG = (
    "Example: sangam tune pipelines/specs/census_income.yaml --data census --root runs --trials 30\n\n"
    "Exit codes: 0 the search has finished; 1 all of its trials, or the steps before them, failed; 2 the spec or an "
    "option is wrong; 4 another search or run is using the folder; 130 or 143 the search was stopped."
)


def tune(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="The ranker's YAML file, with a section `tune`.")],
    data: DataOption,
    root: RootOption,
    date: Annotated[
        str | None, typer.Option(metavar="YYYY-MM-DD", help="Last day to evaluate on. Only for logs by day.")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(min=1, help="Number of trials. [default: tune.trials of the spec]")
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(min=0.1, help="The search ends after this time. [default: tune.minutes of the spec]"),
    ] = None,
    jobs: Annotated[
        int,
        typer.Option(min=1, help="Trials at a time, each with all of cluster.ranks. Above 1 their order is random."),
    ] = 1,
    as_json: JsonOption = False,
) -> None:
    """Searches the ranges in section `tune` of a spec for the model that does best on the validation split.

    `tune: auto` in the spec is a prepared search. The logs are ingested once, and transformed once for each set of
    features that is searched; every trial trains from nothing and exports nothing. The
    evaluation split is never used. After a stop the same command resumes the search, and a larger --trials extends a
    finished one; a changed spec starts a new one. The best spec, a table and a plot of all trials are in
    ROOT/tune/NAME.
    """
    from sangam.pipelines.tune.request import check_tune

    request = check_tune(spec, date, data, root, trials=trials, jobs=jobs, minutes=minutes)
    # Imported after the check: Optuna and Matplotlib take a second, and a mistake should be reported at once.
    from sangam.pipelines.tune.run import document, run_tune

    code = run_tune(request, terminal(sys.stderr if as_json else None))
    if as_json:
        print_json({"exit_code": int(code), **document(request)})
    raise typer.Exit(code)
