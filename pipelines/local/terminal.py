"""A local run in the terminal: progress, report, errors and exit code."""

import os
from pathlib import Path
from typing import TextIO

from sangam.components.alerts import send_all
from sangam.components.record.journal import Journal
from sangam.components.record.run import RunRecord
from sangam.pipelines.console import say, terminal
from sangam.pipelines.local.full_disk import DiskWatch, full_disk
from sangam.pipelines.local.output import keep_stream
from sangam.pipelines.local.request import RunRequest
from sangam.pipelines.local.result.report import print_report
from sangam.pipelines.local.run import BuildPipeline, run_locally
from sangam.pipelines.local.watched import STOP_S, watched
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.contracts.root import PAGE_FILE
from sangam.schemas.errors import UserError
from sangam.schemas.host.lock import LockHeld


def run_and_report(
    request: RunRequest, build: BuildPipeline | None = None, *, stop_s: float = STOP_S, as_json: bool = False
) -> int:
    """Runs, shows the progress and the result, and returns the exit code.

    The run is a child process; this one handles signals, and writes the record if the child cannot.

    Args:
        request: run to execute.
        build: builds the pipeline; default: the spec's.
        stop_s: seconds from a signal until all remaining processes are killed.
        as_json: whether to print the summary on standard output, and all other output on standard error.
    """
    screen = _Screen(keep_stream(1), keep_stream(2), as_json)
    console = screen.console
    ended = watched(request, console, lambda journal: _run(request, build, journal, screen), stop_s=stop_s)
    if isinstance(ended, int):
        return ended
    console.show_cursor()
    if ended.record is None:
        say("stopped before the run began", screen.errors)
    else:
        _tell(request, ended.record, ended.path, ended.log, screen)
    return ended.exit_code


class _Screen:
    """The streams for progress and report, errors, and the document for programs."""

    def __init__(self, out: TextIO, err: TextIO, as_json: bool):
        self._document = out if as_json else None
        self.console, self.errors = terminal(err if as_json else out), terminal(err)

    def print_document(self, path: Path) -> None:
        """Prints the summary if JSON is requested."""
        if self._document is not None:
            self._document.write(path.read_text(encoding="utf-8"))
            self._document.flush()


def _run(request: RunRequest, build: BuildPipeline | None, journal: Journal, screen: _Screen) -> int:
    """Runs in this process and exits it; returns an exit code only if the root cannot be locked."""
    try:
        outcome = run_locally(request, screen.console, build, journal)
    except UserError as error:
        say(str(error), screen.errors)
        return ExitCode.ROOT_IN_USE if isinstance(error, LockHeld) else ExitCode.MISTAKE
    except OSError as error:
        # The run's folder could not be written.
        told = full_disk(error, request, {}, DiskWatch(request.root))
        say(told or f"--root: cannot be used (got {error})", screen.errors)
        os._exit(ExitCode.FAILED)
    _tell(request, outcome.record, outcome.path, outcome.log, screen)
    # A normal exit would wait for Beam's threads, which may still work on a failed step, and take two seconds to unload
    # TFX, Beam and TensorFlow.
    os._exit(outcome.exit_code)


def _tell(request: RunRequest, record: RunRecord, path: Path, log: Path, screen: _Screen) -> None:
    print_report(record, screen.console)
    if record.error:
        say(f"{record.error}\nlog: {log}", screen.errors)
    say(f"summary: {path}", screen.console)
    if (page := path.with_name(PAGE_FILE)).exists():
        say(f"report: {page}", screen.console)
    screen.print_document(path)
    # Last: the receiver may be slow, and its answer does not change the result.
    for problem in send_all(request.spec.alerts, record, os.environ) if request.spec.alerts else ():
        say(problem, screen.errors)
