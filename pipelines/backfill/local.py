"""A backfill on this machine: one `sangam run` per date, in order; later dates train on evaluated ones."""

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from sangam.components.logs.files.light_storage import LightStorage, open_light
from sangam.components.logs.files.resolve import DataFile, has_files
from sangam.components.logs.tables.files import days_with_rows, files_of
from sangam.components.processes.stopping import Stopped, StopSignals
from sangam.components.record.outcome import outcome_of
from sangam.components.record.store import read_run
from sangam.components.reports.headline import headline_of
from sangam.pipelines.backfill.dates import check_dates
from sangam.pipelines.backfill.record import (
    RECORD_FILE,
    DateRecord,
    MetricValue,
    identity_of,
    read_record,
    write_dates,
    write_record,
)
from sangam.pipelines.console import say, table
from sangam.pipelines.local.child_run import CHILD_GRACE_S, run_child
from sangam.pipelines.local.request import RunRequest, check_request
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.contracts.root import RunFolder
from sangam.schemas.derived.days import Day
from sangam.schemas.errors import UserError
from sangam.schemas.host.files import tail
from sangam.schemas.loading import load_spec
from sangam.schemas.quantities import shown_seconds
from sangam.schemas.spec.data import TRAIN, DayLogs, TableLogs

_TAIL_LINES = 15

RunDate = Callable[[list[str], Path, StopSignals], int]
"""Runs `sangam` with arguments, writes its output to a file, and returns the exit code."""


@dataclass(frozen=True)
class Backfill:
    """The settings of a backfill.

    Attributes:
        spec_path: path of the spec, as the user gave it.
        request: run of the first date.
        dates: all dates, in order.
    """

    spec_path: Path
    request: RunRequest
    dates: tuple[Day, ...]

    @property
    def folder(self) -> Path:
        """Folder of the record and the runs' logs."""
        return self.request.layout.backfill(self.request.spec.name)


class DateFailed(Exception):
    """A date whose run failed; the text has the reason, and how to resume."""


def check_backfill(spec_path: Path, first: str, last: str, data: str | Path, root: Path) -> Backfill:
    """Checks and returns the backfill.

    Raises:
        UserError: the spec reads no days, a date is invalid, `last` is before `first`, or a folder cannot be used.
    """
    spec = load_spec(spec_path)
    dates = check_dates(spec, first, last)
    backfill = Backfill(spec_path, check_request(spec, first, data, root), dates)
    if not any(_has_logs(backfill.request, date) for date in dates):
        raise UserError(
            f"--from, --to: no date has logs (got {first} to {last}, --data {data}); check the dates and the folder"
        )
    return backfill


def run_backfill(backfill: Backfill, console: Console, run_date: RunDate = run_child) -> int:
    """Runs every date that is not done yet, prints a line for each and a table of all, and returns the exit code."""
    backfill.folder.mkdir(parents=True, exist_ok=True)
    record = read_record(backfill.folder, backfill.request.spec.name)
    write_dates(backfill.folder, map(str, backfill.dates))
    first, last = backfill.dates[0], backfill.dates[-1]
    say(f"backfill {record.name} {first} to {last}, output in {backfill.folder}", console)
    # A copy: edits during the backfill must not change later dates.
    spec = backfill.folder / "spec.yaml"
    shutil.copyfile(backfill.spec_path, spec)
    code: int = ExitCode.DONE
    with StopSignals(grace_s=2 * CHILD_GRACE_S) as stop:
        try:
            for date in backfill.dates:
                known = record.dates.get(date.isoformat())
                is_done = known is not None and _stands(known, backfill.request, date)
                done = known if known and is_done else _run(backfill, spec, date, stop, run_date)
                record = record.with_date(done)
                write_record(backfill.folder, record)
                say(_line(done, is_done), console)
        except DateFailed as failure:
            say(str(failure), console)
            code = ExitCode.FAILED
        except Stopped as stopped:
            say(f"{stopped}; the same command resumes", console)
            code = stopped.exit_code
    identity = identity_of(backfill.request)
    known_dates = [record.dates[text] for text in map(str, backfill.dates) if text in record.dates]
    if dates := [done for done in known_dates if done.identity == identity]:
        console.print(_table(dates, backfill.request.spec.tasks))
    say(f"record: {backfill.folder / RECORD_FILE}", console)
    return code


def document(backfill: Backfill) -> dict[str, Any]:
    """Returns the record of a backfill's dates as JSON, for programs; a date that has not ended is absent."""
    record = read_record(backfill.folder, backfill.request.spec.name)
    known = [record.dates[text] for text in map(str, backfill.dates) if text in record.dates]
    return {"name": record.name, "dates": [date.model_dump(mode="json") for date in known]}


def _run(backfill: Backfill, spec: Path, date: Day, stop: StopSignals, run_date: RunDate) -> DateRecord:
    request, text = backfill.request, date.isoformat()
    identity = identity_of(request)
    assert isinstance(request.spec.logs, DayLogs)
    if request.spec.logs.missing_days == "skip" and not _has_logs(request, date):
        note = f"{text} has no logs to evaluate a model on"
        return DateRecord(date=text, state="skipped", identity=identity, notes=[note])
    log = backfill.folder / f"{text}.log"
    known = request.layout.run_folders()
    arguments = ["run", str(spec), "--date", text, "--data", request.data_root, "--root", str(request.root)]
    code = run_date(arguments, log, stop)
    summaries = [run.summary for run in request.layout.run_folders() - known if run.summary.exists()]
    if code not in (ExitCode.DONE, ExitCode.REJECTED) or not summaries:
        raise DateFailed(
            f"{text} failed with exit code {code}; fix the cause, then give the same command again to resume. "
            f"The end of {log}:\n{tail(log, _TAIL_LINES)}"
        )
    return _record_of(text, identity, max(summaries))


def _stands(known: DateRecord, request: RunRequest, date: Day) -> bool:
    """Returns whether a recorded date need not run again. A skipped date runs once its logs exist."""
    logs_arrived = known.state == "skipped" and _has_logs(request, date)
    return known.identity == identity_of(request) and not logs_arrived


def _record_of(date: str, identity: str, summary: Path) -> DateRecord:
    run = read_run(RunFolder(summary.parent))
    if run.record is None or run.state not in ("pushed", "blessed", "refused"):
        raise DateFailed(f"{date}: {outcome_of(run).sentence}; give the same command again")
    record = run.record
    mains = {name: headline_of(task) for name, task in record.tasks.items()}
    return DateRecord(
        date=date,
        state=run.state,
        identity=identity,
        mode=record.mode,
        base_last_day=record.base_last_day,
        num_train_days=len(record.days.get(TRAIN, [])),
        tasks={name: MetricValue(metric=each.metric, value=each.value) for name, each in mains.items()},
        seconds=record.total_seconds,
        trainer_seconds=record.steps["trainer"].seconds or 0.0,
        notes=record.notes,
        summary=str(summary),
    )


def _has_logs(request: RunRequest, date: Day) -> bool:
    table, logs, data_root = request.spec.data, request.spec.logs, request.data_root
    if isinstance(table, TableLogs):
        return date in _days_of(table.model_dump_json(), tuple(files_of(table, data_root, LightStorage())))
    assert isinstance(logs, DayLogs)
    return has_files(logs, date, data_root, LightStorage())


@lru_cache(maxsize=1)
def _days_of(table: str, files: tuple[DataFile, ...]) -> frozenset[Day]:
    """Returns the days of a table, given as JSON; read again only when a file has changed."""
    return frozenset(days_with_rows(TableLogs.model_validate_json(table), files, open_light))


def _line(done: DateRecord, was_done: bool) -> str:
    how = "done before" if was_done else shown_seconds(done.seconds)
    return f"{done.date} {done.state:<8} {how}"


def _table(dates: Iterable[DateRecord], tasks: Iterable[str]) -> Table:
    shown = table("date", "state", "trained on", *tasks)
    shown.add_column("training", justify="right")
    shown.add_column("run", justify="right")
    judged = []
    for done in dates:
        if done.state == "skipped":
            shown.add_row(done.date, "skipped", "no logs", *("" for _ in tasks), "", "")
            continue
        judged.append(done)
        values = [_value(done.tasks[task]) if task in done.tasks else "" for task in tasks]
        shown.add_row(
            done.date,
            done.state,
            _trained_on(done),
            *values,
            shown_seconds(done.trainer_seconds),
            shown_seconds(done.seconds),
        )
    if not judged:
        return shown
    sums = [shown_seconds(sum(getattr(done, name) for done in judged)) for name in ("trainer_seconds", "seconds")]
    means = [_value(mean(judged, task)) for task in tasks]
    shown.add_row("", "", "mean; sum", *means, *sums, style="bold")
    return shown


def mean(dates: Iterable[DateRecord], task: str) -> MetricValue:
    """Returns the mean of a task's metric over the dates that have one."""
    known = [done.tasks[task] for done in dates if task in done.tasks and done.tasks[task].value is not None]
    values = [metric.value for metric in known if metric.value is not None]
    return MetricValue(metric=known[0].metric if known else "", value=sum(values) / len(values) if values else None)


def _value(value: MetricValue) -> str:
    return f"{value.metric} {value.value:.4f}" if value.value is not None else f"{value.metric} unknown".strip()


def _trained_on(done: DateRecord) -> str:
    days = f"{done.num_train_days} day{'s' if done.num_train_days != 1 else ''}"
    return f"{days} after {done.base_last_day}" if done.base_last_day else f"{days} from nothing"
