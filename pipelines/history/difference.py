"""The differences between two runs: spec, days, code and results."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from sangam.components.record.run import RunRecord
from sangam.components.record.store import StoredRun
from sangam.components.reports.evaluation import shown_value
from sangam.components.reports.spec_file import read_settings, settings_by_path
from sangam.pipelines.console import say, table
from sangam.schemas.quantities import readable, shown_seconds

_TITLES = {"seconds": "time"}
_SECTIONS = ("run", "spec", "data", "code", "metrics", "rows", "tables", "seconds")


@dataclass(frozen=True)
class Change:
    """A difference between two runs.

    Attributes:
        section: part of the run, one of `_SECTIONS`.
        what: a path in the spec, a split, a task and metric, a table, or a step.
        old: value of the first run; None without one.
        new: value of the second run; None without one.
    """

    section: str
    what: str
    old: Any
    new: Any

    @property
    def difference(self) -> float | None:
        """New minus old; None unless both are numbers."""
        numbers = [
            value for value in (self.old, self.new) if isinstance(value, int | float) and not isinstance(value, bool)
        ]
        return numbers[1] - numbers[0] if len(numbers) == 2 else None

    @property
    def shown_old(self) -> str:
        """`old` as text."""
        return self._shown(self.old)

    @property
    def shown_new(self) -> str:
        """`new` as text."""
        return self._shown(self.new)

    @property
    def shown_difference(self) -> str:
        """`difference` with its sign, as text; empty without one."""
        change = self.difference
        if change is None:
            return ""
        return "0" if change == 0 else f"{'+' if change > 0 else '-'}{self._shown(abs(change))}"

    def _shown(self, value: Any) -> str:
        if value is None:
            return "none"
        if self.section == "seconds":
            return shown_seconds(value)
        if self.section == "metrics":
            return shown_value(self.what.rpartition(" ")[2], value)
        return f"{value:,}" if type(value) is int else str(readable(value))


def changes(old: StoredRun, new: StoredRun) -> list[Change]:
    """Returns the differences between two runs, in the order of `_SECTIONS`."""
    found = [*_compared("run", _facts(old), _facts(new)), *_spec(old, new)]
    for section, part in _PARTS.items():
        before = dict(part(old.record)) if old.record else {}
        after = dict(part(new.record)) if new.record else {}
        found += _compared(section, before, after)
    return found


def _facts(run: StoredRun) -> dict[str, Any]:
    return {"state": run.state, "ranker": run.ranker, "date": run.date}


def _spec(old: StoredRun, new: StoredRun) -> Iterator[Change]:
    before, after = read_settings(old.folder), read_settings(new.folder)
    if before is None or after is None:
        digests = [run.record.spec_digest if run.record else None for run in (old, new)]
        if digests[0] != digests[1]:
            yield Change("spec", "digest, for one of the specs cannot be read", *digests)
        return
    yield from _compared("spec", settings_by_path(before), settings_by_path(after))


def _data(record: RunRecord) -> Iterator[tuple[str, Any]]:
    for split, days in record.days.items():
        yield f"{split} days", _listed(days)
    yield "missing days", _listed(record.missing_days)
    yield "base trained to", record.base_last_day
    yield "logs", record.data


def _listed(days: list[str]) -> str | None:
    """Returns days as text; None if there are none."""
    return ", ".join(days) or None


def _code(record: RunRecord) -> Iterator[tuple[str, Any]]:
    yield "commit", record.git_commit


def _metrics(record: RunRecord) -> Iterator[tuple[str, Any]]:
    for name, task in record.tasks.items():
        yield from ((f"{name} {metric}", value) for metric, value in task.metrics.items())


def _rows(record: RunRecord) -> Iterator[tuple[str, Any]]:
    for split, rows in record.rows.items():
        yield f"{split} written", rows.written
        yield from ((f"{split} dropped: {why}", number) for why, number in rows.dropped.items())


def _tables(record: RunRecord) -> Iterator[tuple[str, Any]]:
    if record.training:
        yield from ((f"{name} rows", rows.rows) for name, rows in record.training.tables.items())


def _seconds(record: RunRecord) -> Iterator[tuple[str, Any]]:
    yield from ((name, step.seconds) for name, step in record.steps.items())
    yield "whole run", record.total_seconds


_PARTS = {
    "data": _data,
    "code": _code,
    "metrics": _metrics,
    "rows": _rows,
    "tables": _tables,
    "seconds": _seconds,
}


def _compared(section: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    for what in dict.fromkeys((*old, *new)):
        if old.get(what) != new.get(what):
            yield Change(section, what, old.get(what), new.get(what))


def document(old: StoredRun, new: StoredRun) -> dict[str, Any]:
    """Returns the changes as JSON, for programs: a list for each section."""
    found = changes(old, new)
    sections = {
        section: [
            {"what": change.what, "old": change.old, "new": change.new, "difference": change.difference}
            for change in found
            if change.section == section
        ]
        for section in _SECTIONS
    }
    return {"old": old.id, "new": new.id, **sections}


def print_changes(old: StoredRun, new: StoredRun, console: Console) -> None:
    """Prints a line for each change, by section; numbers with their difference."""
    found = changes(old, new)
    say(f"{old.id} -> {new.id}" + ("" if found else ": no difference"), console)
    shown, section = table(), ""
    shown.show_header = False
    for _ in range(5):
        shown.add_column(overflow="fold")
    for change in found:
        title = "" if change.section == section else _TITLES.get(change.section, change.section)
        section = change.section
        shown.add_row(title, change.what, change.shown_old, f"-> {change.shown_new}", change.shown_difference)
    console.print(shown)
