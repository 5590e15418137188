"""The state of a root on this machine: what is live, how the last run ended, when the next one starts, warnings."""

import datetime
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from sangam.components.alerts import Event, last_push, live_of, silence_of
from sangam.components.record.journal import read_journal
from sangam.components.record.outcome import outcome_of
from sangam.components.record.store import StoredRun, read_runs
from sangam.components.reports.spec_file import read_spec
from sangam.pipelines.console import say
from sangam.pipelines.history.next_start import NextStart
from sangam.pipelines.history.runs import document
from sangam.pipelines.times import Moment, duration, minute
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.spec.alerts import Alerts

FindNext = Callable[[str, Path, Moment], NextStart | None]


@dataclass(frozen=True)
class RankerState:
    """The state of a ranker in a root.

    Attributes:
        live: version that servers load; None: nothing.
        serving: folder of versions; None: nothing was pushed yet.
        pushed_at: time of the last push; None: never.
        last: run that started last.
        next: next start by a timer; None: no timer is known.
        alerts: section of the last run's spec; None without one.
        silence: alert that nothing was pushed for the declared days; None if something was.
    """

    ranker: str
    live: str | None
    serving: str | None
    pushed_at: Moment | None
    last: StoredRun
    next: NextStart | None
    alerts: Alerts | None
    silence: Event | None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of the last run, and on days without a push."""
        told = tuple(self.last.record.warnings) if self.last.record else ()
        return (*told, self.silence.reason) if self.silence else told

    @property
    def exit_code(self) -> ExitCode:
        """FAILED if the last run failed or nothing was pushed for days, REJECTED if its model was refused, or DONE."""
        if self.silence or self.last.state in ("failed", "killed", "unreadable"):
            return ExitCode.FAILED
        return ExitCode.REJECTED if self.last.state == "refused" else ExitCode.DONE

    def document(self, now: Moment) -> dict[str, Any]:
        """Returns the state as JSON, for programs."""
        return {
            "ranker": self.ranker,
            "live": self.live,
            "serving": self.serving,
            "pushed_at": _iso(self.pushed_at),
            "last": {**document(self.last, now), "verdict": outcome_of(self.last).sentence},
            "next": {"at": _iso(self.next.at), "by": self.next.by} if self.next else None,
            "warnings": list(self.warnings),
            "not_pushed": self.silence is not None,
        }


def states_of(folder: Path, name: str | None, now: Moment, find_next: FindNext) -> list[RankerState]:
    """Returns the state of each ranker in a root, or of one.

    Raises:
        UserError: the folder is no root, has no run of this ranker, or its registry is damaged.
    """
    newest: dict[str, StoredRun] = {}
    for run in read_runs(folder, name):
        if run.ranker:
            newest.setdefault(run.ranker, run)
    return [_state(ranker, run, now, find_next) for ranker, run in sorted(newest.items())]


def _state(ranker: str, run: StoredRun, now: Moment, find_next: FindNext) -> RankerState:
    root, spec = run.root, read_spec(run.folder)
    alerts = spec.alerts if spec else None
    live = live_of(root, ranker)
    return RankerState(
        ranker,
        live.get("live"),
        live.get("serving"),
        last_push(root, ranker),
        run,
        find_next(ranker, root.path, now),
        alerts,
        silence_of(alerts, root, ranker, now, run.id) if alerts else None,
    )


def print_states(states: Sequence[RankerState], now: Moment, console: Console) -> None:
    """Prints each ranker's state: what is live first, then the last run, the next one, and warnings."""
    for state in states:
        code = state.exit_code
        words = {ExitCode.DONE: "healthy", ExitCode.REJECTED: "the last model was refused"}.get(code, "needs a look")
        style = {ExitCode.DONE: "green", ExitCode.REJECTED: "yellow"}.get(code, "red")
        number = len(state.warnings)
        warned = f", with {number} warning{'s' if number > 1 else ''}" if number else ""
        console.print(Text.assemble(f"{state.ranker}: ", (words, style), warned))
        _line(console, "live", _live(state, now))
        _line(console, "last run", _last(state.last, now))
        if state.next:
            wait = duration((state.next.at - now).total_seconds())
            _line(console, "next run", f"{minute(state.next.at)} UTC, in {wait}, by {state.next.by}")
        else:
            _line(console, "next run", "no timer of systemd or cron is known here")
        for warning in state.warnings:
            _line(console, "warning", warning)
        if code != ExitCode.DONE or state.warnings:
            command = "show" if code == ExitCode.DONE else "why"
            _line(console, "try", f"sangam {command} {shlex.quote(str(state.last.folder.path))}")


def _live(state: RankerState, now: Moment) -> str:
    if state.serving is None:
        return "nothing was pushed yet"
    pushed = f"; the last push was {duration((now - state.pushed_at).total_seconds())} ago" if state.pushed_at else ""
    return f"version {state.live} in {state.serving}{pushed}" if state.live else f"nothing in {state.serving}{pushed}"


def _last(run: StoredRun, now: Moment) -> str:
    date = f" for {run.date}" if run.date else ""
    when = f", started {minute(run.started)} UTC" if run.started else ""
    took = run.seconds(now)
    spent = f", {'for' if run.state == 'running' else 'took'} {duration(took)}" if took is not None else ""
    step = read_journal(run.folder).running if run.state == "running" else None
    told = f"running {step.name}" if step else outcome_of(run).sentence
    return f"{run.id}{date}{when}{spent}: {told}"


def _line(console: Console, name: str, text: str) -> None:
    say(f"  {name:<9} {text}", console)


def _iso(moment: datetime.datetime | None) -> str | None:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z") if moment else None
