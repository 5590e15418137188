"""The command `sangam clean`."""

from pathlib import Path
from typing import Annotated

import typer

from sangam.pipelines.commands.options import JsonOption
from sangam.pipelines.console import print_json, say, terminal
from sangam.schemas.contracts.exit_codes import ExitCode

EPILOG = (
    "Example: sangam clean runs --dry-run --runs 30 --models 5 --checkpoints 2\n\n"
    "Exit codes: 0 done; 1 something could not be removed; 2 an option is wrong, or nothing says what to keep; 4 a run "
    "is using the root."
)


def clean(
    root: Annotated[Path, typer.Argument(metavar="ROOT", help="Pipeline root of runs on this machine.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would go, with bytes, and why the rest stays.")
    ] = False,
    runs: Annotated[
        int | None, typer.Option(min=1, help="Runs to keep. [default: keep.runs of the newest run's spec]")
    ] = None,
    models: Annotated[
        int | None, typer.Option(min=2, help="Models to keep. [default: keep.models of the newest run's spec]")
    ] = None,
    checkpoints: Annotated[
        int | None,
        typer.Option(min=2, help="Checkpoints to keep. [default: keep.checkpoints of the newest run's spec]"),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Only of this ranker. [default: of all in the root]")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Removes old runs, models and checkpoints from a root, as the section `keep` of a spec does after each run.

    What is served, what a rollback goes back to, what the next run starts from, and what is under way always stays.
    What was removed is made again when a run needs it.
    """
    from sangam.pipelines.history.cleaning import clean_root, document, print_cleaning

    asked = {"runs": runs, "models": models, "checkpoints": checkpoints}
    options = {key: number for key, number in asked.items() if number is not None}
    cleanings = clean_root(root, options, name, is_dry_run=dry_run)
    if as_json:
        print_json({"dry_run": dry_run, "rankers": [document(cleaning) for cleaning in cleanings]})
    else:
        for cleaning in cleanings:
            print_cleaning(cleaning, terminal(), is_dry_run=dry_run)
    failed = [failure for cleaning in cleanings for failure in cleaning.failed]
    if failed and not as_json:
        for decision, reason in failed:
            say(f"not removed: {decision.path} (got {reason})")
    raise typer.Exit(ExitCode.FAILED if failed else ExitCode.DONE)
