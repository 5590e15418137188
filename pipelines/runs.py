"""A local run as the terminal sees it."""

import os

from rich.console import Console

from pipelines.alerting import alert
from pipelines.local.output import keep_stream
from pipelines.local.request import RunRequest
from pipelines.local.run import BuildPipeline, run_locally
from pipelines.report import print_report
from schemas.errors import UserError

ROOT_IN_USE = 4
"""Exit code of a run that has not begun, because another one holds its root."""
PLAIN_WIDTH = 200


def run_and_report(request: RunRequest, build: BuildPipeline | None = None) -> int:
    """Runs, shows the progress and the result, and returns the exit code; does not return from a run that failed.

    Args:
        request: what to run.
        build: makes the pipeline; that of the spec when left out.
    """
    terminal = keep_stream(1)
    # Off a terminal nobody wraps lines: those who read them later want them whole.
    console = Console(file=terminal, highlight=False, width=None if terminal.isatty() else PLAIN_WIDTH)
    errors = Console(file=keep_stream(2), highlight=False)
    try:
        outcome = run_locally(request, console, build)
    except UserError as error:
        errors.print(str(error), markup=False, soft_wrap=True)
        return ROOT_IN_USE
    print_report(outcome.summary, console)
    if outcome.summary.error:
        errors.print(f"{outcome.summary.error}\nlog: {outcome.log}", markup=False, soft_wrap=True)
    console.print(f"summary: {outcome.summary_path}", markup=False, soft_wrap=True)
    # Last: the receiver may be slow, and what it says changes nothing.
    if problem := alert(request.spec, outcome.summary):
        errors.print(problem, markup=False, soft_wrap=True)
    if outcome.summary.status != "succeeded":
        # Threads of Beam may still be busy with the step that did not end, and Python would wait for them.
        os._exit(outcome.exit_code)
    return outcome.exit_code
