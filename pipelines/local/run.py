"""A run on this machine, from the lock on its root to its record."""

import contextlib
import functools
import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from sangam.components.processes.stopping import Stopped, StopSignals, kill_descendants
from sangam.components.record.journal import Journal
from sangam.components.record.lock import RootInUse, locked
from sangam.components.record.run import Observer, RunRecord, Step
from sangam.components.record.store import link_latest, reserve, write_record
from sangam.components.reports.spec_file import write_spec
from sangam.pipelines.beam import step_args
from sangam.pipelines.console import QUIET_ENVIRONMENT, say
from sangam.pipelines.local import output
from sangam.pipelines.local.full_disk import DiskWatch, full_disk
from sangam.pipelines.local.progress import TerminalProgress
from sangam.pipelines.local.request import RunRequest, check_logs, run_id
from sangam.pipelines.local.result.outcome import RunEnd, exit_code, summarize
from sangam.pipelines.local.retention.after_run import clean_after_run
from sangam.pipelines.provenance import code_folder, git_commit
from sangam.pipelines.times import utc_now
from sangam.schemas.contracts import monitoring
from sangam.schemas.contracts.root import RunFolder
from sangam.schemas.errors import UserError
from sangam.schemas.host import gpus
from sangam.schemas.host.needless_imports import leave_out_needless_of_tfx
from sangam.schemas.host.plain_text import log_to_stderr
from sangam.schemas.spec import digest

_LOG = logging.getLogger(__name__)

RUN_LOG = "run.log"

BuildPipeline = Callable[[RunRequest, str | None], Any]
"""Builds the TFX pipeline from a request and the code's commit, with its storage below the request's root."""


@dataclass(frozen=True)
class Outcome:
    """A finished run.

    Attributes:
        record: written record of the run.
        path: path of the record's file.
        exit_code: exit code of the process.
        log: most relevant log about the error.
    """

    record: RunRecord
    path: Path
    exit_code: int
    log: Path


@dataclass
class _Steps:
    """An observer that redirects the output to each step's own log, stores the finished steps, and renews the lock."""

    logs: Path
    log: Path
    renew: Callable[[], None]
    ended: dict[str, Step] = field(default_factory=dict)

    def step_started(self, name: str) -> None:
        self.renew()
        self.log = self.logs / f"{name}.log"
        output.send_output_to(self.log)

    def step_ended(self, step: Step) -> None:
        self.ended[step.name] = step
        if step.state in ("ran", "cached"):
            self.log = self.logs / RUN_LOG
        output.send_output_to(self.logs / RUN_LOG)


def run_locally(
    request: RunRequest, console: Console, build: BuildPipeline | None = None, journal: Journal | None = None
) -> Outcome:
    """Runs a spec and writes its record, however the run ends.

    Redirects standard output and error of this process to the run's log files: call it last.

    Args:
        request: run to execute.
        console: shows the progress; its stream must be from `output.keep_stream`.
        build: builds the pipeline; default: the spec's.
        journal: stores the data from which a supervisor writes the record if this process cannot.

    Raises:
        UserError: the root is in use.
    """
    with locked(request.root) as renew, StopSignals() as stop:
        started = time.monotonic()
        run_folder = _new_run_folder(request)
        logs, date = RunFolder(run_folder).logs, str(request.date or "")
        journal = journal or Journal()
        reserve(run_folder)
        journal.opened(run_folder, date=date, data=str(request.data_root))
        write_spec(run_folder, request.spec)
        link_latest(RunFolder(run_folder))
        say(f"run {run_folder.name}, logs in {logs}", console)
        commit = _open_run(request, run_folder)
        journal.opened(run_folder, commit, date, str(request.data_root))
        steps, progress = _Steps(logs, logs / RUN_LOG, renew), TerminalProgress(console, logs)
        disk = DiskWatch(request.root)
        make_pipeline = functools.partial(build or _build_from_spec, request, commit)
        failure: BaseException | None = None
        try:
            if build is None:
                with stop.raised(), progress.doing("resolving the days"):
                    check_logs(request, utc_now().date())
            observers: list[Observer] = [journal, disk, steps, progress]
            _run(request, run_folder.name, make_pipeline, observers, journal, stop, progress.doing)
        except (Stopped, Exception) as error:  # noqa: BLE001 - the run must write its record
            # After a stop, other errors are its consequence.
            failure = stop.request or error
            # The traceback belongs in the step's log.
            output.send_output_to(steps.log)
            _LOG.exception("event=run_ended_early")
        told = full_disk(failure, request, steps.ended, disk) if failure and not stop.request else None
        ending = _ending(failure, told, time.monotonic() - started)
        record = summarize(request, run_folder, steps.ended, ending, commit)
        stop_code = stop.request.exit_code if stop.request else 0
        code = exit_code(record, stop_code, is_mistake=told is None and _is_mistake(failure))
        record = record.model_copy(update={"exit_code": code})
        path = write_record(record)
        if not stop.request:
            # Imported late: its charts and readers take a second.
            from sangam.pipelines.local.result.page import write_page

            write_page(record, steps.ended, steps.log)
            with contextlib.suppress(RootInUse):  # Another run may use the root: it cleans up.
                renew()
                clean_after_run(request, console)
        return Outcome(record, path, code, steps.log)


def _open_run(request: RunRequest, run_folder: Path) -> str | None:
    """Redirects all output to the run's folder, and returns the code's commit."""
    logs = RunFolder(run_folder).logs
    logs.mkdir()
    output.send_output_to(logs / RUN_LOG)
    log_to_stderr(force=True)
    os.environ.update(QUIET_ENVIRONMENT)
    os.environ["SANGAM_LOG_DIR"] = str(logs)
    monitoring.replace_variables(request.spec.monitoring)
    commit = git_commit(code_folder())
    _LOG.info("event=run_started run=%s spec_digest=%s git_commit=%s", run_folder.name, digest(request.spec), commit)
    return commit


def _ending(failure: BaseException | None, told: str | None, seconds: float) -> RunEnd:
    """Returns the end of the run; `told`, if given, replaces the failure's own text."""
    match failure:
        case None:
            return RunEnd(None, None, seconds)
        case Stopped():
            return RunEnd("stopped", str(failure), seconds)
        case _:
            return RunEnd("failed", told or error_text(failure), seconds)


def _run(
    request: RunRequest,
    run: str,
    build: Callable[[], Any],
    observers: Sequence[Observer],
    journal: Journal,
    stop: StopSignals,
    doing: Callable[[str], contextlib.AbstractContextManager[None]],
) -> None:
    with stop.raised():
        with doing("importing TensorFlow, Beam and TFX"):
            leave_out_needless_of_tfx()
            gpus.hide()
            import absl.logging

            from sangam.pipelines.local.recovery import recover
            from sangam.pipelines.local.runner import metadata_of, run_pipeline

            # TFX and TFMA log through absl, which by default drops everything below a warning.
            absl.logging.set_verbosity(absl.logging.INFO)
        with doing("building the pipeline"):
            pipeline = build()
            journal.planned(component.id for component in pipeline.components)
            recover(metadata_of(pipeline), request.layout.artifacts)
    try:
        with stop.raised():
            run_pipeline(pipeline, run, observers)
    except BaseException:
        # TFX cleans up after an exception in an executor, but not after one in a driver or after a stop.
        kill_descendants()
        recover(metadata_of(pipeline), request.layout.artifacts)
        raise


def _build_from_spec(request: RunRequest, commit: str | None) -> Any:
    from sangam.pipelines.pipeline import Placement, build

    date = request.date.isoformat() if request.date else ""
    placement = Placement(date, request.data_root, str(request.root), commit or "")
    return build(request.spec, placement, step_args(request.spec.beam))


def error_text(error: BaseException) -> str:
    """Returns the text of the UserError that caused an error, or else the error in one line."""
    told = _user_error(error)
    return str(told) if told else f"{type(error).__name__}: {str(error).strip()}"


def _is_mistake(failure: BaseException | None) -> bool:
    told = _user_error(failure)
    return told is not None and told.is_mistake


def _user_error(error: BaseException | None) -> UserError | None:
    while error is not None and not isinstance(error, UserError):
        error = error.__cause__ or error.__context__
    return error


def _new_run_folder(request: RunRequest) -> Path:
    """Creates the run's folder. If a run of the spec started in the same second, waits for the next second."""
    runs = request.layout.runs
    runs.mkdir(exist_ok=True)
    while True:
        folder = runs / run_id(request.spec, utc_now())
        try:
            folder.mkdir()
        except FileExistsError:
            time.sleep(0.1)
        else:
            return folder
