"""Output of `sangam show` and `sangam why` for one run."""

import datetime
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from sangam.components.object_stores import is_stored
from sangam.components.record.journal import read_journal
from sangam.components.record.outcome import Outcome, outcome_of
from sangam.components.record.run import RunRecord
from sangam.components.record.store import StoredRun
from sangam.components.registry import shadow
from sangam.components.registry.record import BlessedModel, read_records
from sangam.pipelines.console import say, table
from sangam.pipelines.history.runs import document
from sangam.pipelines.local.outputs import Output, read_outputs
from sangam.pipelines.local.result.report import print_data, print_notes, print_tasks
from sangam.pipelines.times import duration, minute
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.host.files import tail
from sangam.schemas.quantities import shown_bytes, shown_seconds

_TAIL_LINES = 15


@dataclass(frozen=True)
class Shown:
    """A run with related records of its root.

    Attributes:
        outputs: outputs of its steps.
        by_hand: a person's blessing of its model; None without one.
    """

    run: StoredRun
    outputs: tuple[Output, ...]
    by_hand: BlessedModel | None

    @property
    def verdict(self) -> str:
        """The result of the run, in one sentence."""
        return outcome_of(self.run, self.by_hand).sentence

    def document(self, now: datetime.datetime) -> dict[str, Any]:
        """Returns the run as JSON: the fields of `sangam runs`, the verdict, the summary, and paths of artifacts."""
        summary = json.loads(self.run.record.text()) if self.run.record else None
        artifacts = [
            {"step": output.step, "output": output.key, "path": str(output.path), "there": output.path.is_dir()}
            for output in self.outputs
        ]
        return {**document(self.run, now), "verdict": self.verdict, "artifacts": artifacts, "summary": summary}


def read_shown(run: StoredRun) -> Shown:
    """Reads the records of a run that are outside its folder."""
    outputs = tuple(output for output in read_outputs(run.root).outputs if run.id in output.runs)
    models = {str(output.path) for output in outputs if output.key == "model"}
    records = read_records(run.root.path, run.ranker) if run.ranker and run.state == "refused" else []
    by_hand = [record for record in records if record.because and record.model_uri in models]
    return Shown(run, outputs, by_hand[-1] if by_hand else None)


def print_shown(shown: Shown, now: datetime.datetime, console: Console) -> None:
    """Prints the verdict first, then tasks, data and training, steps, and the paths of all files."""
    run, record = shown.run, shown.run.record
    say(shown.verdict, console)
    took = run.seconds(now)
    date = f" for {run.date}" if run.date else ""
    when = f", started {minute(run.started)} UTC" if run.started else ""
    say(
        f"run {run.id} of {run.ranker or 'an unknown ranker'}{date}{when}{f', took {duration(took)}' if took else ''}",
        console,
    )
    if record:
        print_tasks(record, console)
        print_data(record, console)
        print_notes(record, console)
        if record.steps:
            console.print(_steps(record))
    for output in shown.outputs:
        say(f"{output.step} {output.key}: {output.path}{'' if output.path.is_dir() else ', removed'}", console)
    if record and record.pushed:
        path = record.pushed.path
        place = path if is_stored(path) else str(shadow.place_of(Path(path)))
        say(f"version: {place}{'' if is_stored(place) or Path(place).is_dir() else ', removed'}", console)
    say(f"logs: {run.folder.logs}", console)


def _steps(record: RunRecord) -> Any:
    shown = table("step", "state")
    for name in ("time", "peak memory"):
        shown.add_column(name, justify="right")
    for name, step in record.steps.items():
        shown.add_row(name, step.state, shown_seconds(step.seconds or 0.0), shown_bytes(step.peak_memory_bytes))
    return shown


@dataclass(frozen=True)
class Reason:
    """The reason why a run did not push a model.

    Attributes:
        log: the most relevant log; None without one.
        tail: last lines of the log; empty if the causes say it all, as those of a mistake of the user do.
        exit_code: exit code of the run; None if unknown.
    """

    outcome: Outcome
    log: Path | None
    tail: str
    exit_code: int | None

    def lines(self, run: StoredRun) -> Iterator[str]:
        """Yields the reason as text: the cause, the end of the log, and what to try."""
        yield f"{run.id} {self.outcome.short or self.outcome.sentence}"
        yield from (f"  {cause}" for cause in self.outcome.causes)
        if self.tail:
            yield f"the end of {self.log}:\n{self.tail}"
        elif self.log:
            yield f"log: {self.log}"
        if self.exit_code is not None:
            yield f"exit code: {self.exit_code}"
        yield from (f"try: {advice}" for advice in self.outcome.advice)

    def document(self, run: StoredRun) -> dict[str, Any]:
        """Returns the reason as JSON, for programs."""
        return {
            "run": run.id,
            "state": run.state,
            "verdict": self.outcome.sentence,
            "causes": list(self.outcome.causes),
            "log": str(self.log) if self.log else None,
            "tail": self.tail.splitlines(),
            "exit_code": self.exit_code,
            "advice": list(self.outcome.advice),
        }


def reason_of(run: StoredRun) -> Reason:
    """Returns the reason why a run failed or its model was refused, and advice."""
    codes = {"pushed": ExitCode.DONE, "blessed": ExitCode.DONE, "ended": ExitCode.DONE, "refused": ExitCode.REJECTED}
    code = codes.get(run.state, run.record.exit_code if run.record else None)
    running = read_journal(run.folder).running
    step = run.record.failed_step if run.record else running.name if running else None
    log = None if run.state in codes else _log_of(run, step)
    return Reason(outcome_of(run), log, tail(log, _TAIL_LINES) if log and code != ExitCode.MISTAKE else "", code)


def _log_of(run: StoredRun, step: str | None) -> Path | None:
    """Returns the log of a step, or the newest log; None if there is none."""
    logs = {log.stem: log for log in run.folder.logs.glob("*.log") if log.is_file()}
    newest = max(logs.values(), key=lambda log: log.stat().st_mtime, default=None)
    return logs.get(step or "", newest)
