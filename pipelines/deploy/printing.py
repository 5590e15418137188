"""Output of `sangam status` and `sangam runs`."""

import datetime

from rich.console import Console
from rich.text import Text

from sangam.components.record.run import Step
from sangam.pipelines.console import say, table
from sangam.pipelines.deploy.errors import short
from sangam.pipelines.deploy.looks import SLOW_S
from sangam.pipelines.deploy.records import KubeflowRun
from sangam.pipelines.deploy.state import State, date_text, kind_of
from sangam.pipelines.deploy.steps import SHORT_WAIT
from sangam.pipelines.times import Moment, date_of, duration, minute, time_of

_STYLES = {
    "succeeded": "green",
    "skipped": "green",
    "cached": "green",
    "failed": "red",
    "canceled": "red",
    "running": "yellow",
}
_HEALTH_TEXTS = {
    "healthy": "healthy",
    "failed": "the last run did not succeed",
    "unscheduled": "no schedule is enabled",
    "overdue": "the run that was due has not started",
    "waiting": "a pod of the last run does not start",
}


def print_state(state: State, console: Console) -> None:
    """Prints a ranker's state."""
    health = state.health
    words = "more than one schedule is enabled" if len(state.enabled) > 1 else _HEALTH_TEXTS[health]
    console.print(Text.assemble(f"{state.ranker}: ", (words, "green" if health == "healthy" else "red")))
    _line(console, "version", state.version.name if state.version else "none")
    if state.version:
        _line(console, "", state.version.description)
    for schedule in state.schedules:
        at = time_of(schedule.cron)
        when = f"daily at {at} UTC" if at else f"cron {schedule.cron!r}"
        _line(console, "schedule", f"{schedule.name}  {when}  {'enabled' if schedule.is_enabled else 'disabled'}")
    if state.next_due:
        wait = duration((state.next_due - state.now).total_seconds())
        _line(console, "next run", f"{minute(state.next_due)} UTC, in {wait}, for {date_of(state.next_due)}")
    if state.last is None:
        _line(console, "last run", "none yet")
        return
    _print_run(state.last, state, console)
    _print_since(state, console)


def _print_since(state: State, console: Console) -> None:
    for run in state.since:
        when = f" started {minute(run.started_at)} UTC" if run.started_at else ""
        recovers = ", which recovers it" if run == state.recovered_by else ""
        _line(
            console,
            "since",
            f"{run.state}, {kind_of(run, state.ranker)} for {date_text(run)},{when}, {run.id}{recovers}",
        )


def _print_run(run: KubeflowRun, state: State, console: Console) -> None:
    date = f" for {date_text(run)}" if date_text(run) else ""
    took = run.seconds(state.now)
    how_long = f", {'for' if run.is_unfinished else 'took'} {duration(took)}" if took is not None else ""
    age = f", {duration((state.now - run.started_at).total_seconds())} ago" if run.started_at else ""
    when = f", started {minute(run.started_at)} UTC{age}" if run.started_at else ""
    _line(console, "last run", f"{run.state}, {kind_of(run, state.ranker)}{date}{when}{how_long}")
    _line(console, "", run.id)
    for step in run.steps:
        line = Text(f"{'':<10} {step.name:<18} ").append(f"{step.state:<10}", _STYLES.get(step.state, "default"))
        line.append(f" {_so_far(step, state.now)}").rstrip()
        console.print(line)
    if run.look_s is not None and run.look_s >= SLOW_S:
        after = f"a step begins {run.look_s:.0f} s after its driver's pod has ended (median)"
        _line(console, "argo", f"{after}: DEFAULT_REQUEUE_TIME of its controller looks unset, see infra/README.md")
    if run.waits_since and state.look:
        _line(console, "waits", f"for a pod since {minute(run.waits_since)} UTC: {state.look}")
    elif state.reason:
        _line(console, "error", short(state.reason))
    elif state.look:
        _line(console, "error", f"not known here{_maybe(run)}: {state.look}")


def _maybe(run: KubeflowRun) -> str:
    # Kubeflow has no state of its own for a run that was terminated: its steps were stopped, or are as they were.
    ended = any(step.state == "failed" for step in run.steps)
    return "" if ended else ", no step has failed: the run may have been terminated, or its pods were deleted"


def _so_far(step: Step, now: Moment) -> str:
    if step.waits_since:
        since = datetime.datetime.fromtimestamp(step.waits_since, datetime.UTC)
        long = "waits for its pod " if now - since >= SHORT_WAIT else ""
        return f"{long}since {minute(since)} UTC, {duration((now - since).total_seconds())}"
    seconds = step.took(now.timestamp())
    return duration(seconds) if seconds is not None else ""


def print_runs(runs: list[KubeflowRun], ranker: str, now: Moment, console: Console) -> None:
    """Prints a table of runs, newest first."""
    if not runs:
        say(f"{ranker} has no runs yet", console)
        return
    shown = table()
    for name in ("date", "run", "kind", "state", "started (UTC)"):
        shown.add_column(name, no_wrap=True)
    shown.add_column("took", justify="right", no_wrap=True)
    shown.add_column("failed step")
    for run in runs:
        took = run.seconds(now)
        failed = run.failed_step
        shown.add_row(
            date_text(run),
            run.id,
            kind_of(run, ranker),
            Text(run.state, _STYLES.get(run.state, "default")),
            minute(run.started_at) if run.started_at else "",
            duration(took) if took is not None else "",
            failed.name if failed else "",
        )
    console.print(shown)


def _line(console: Console, label: str, text: str) -> None:
    say(f"{label:<10} {text}", console)
