"""The report that is printed at the end of a run."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from components.reports.evaluation import GateVerdict, calibrated
from pipelines.console import say, table
from pipelines.local.result.summary import (
    CostSummary,
    RowsSummary,
    ServingSummary,
    Summary,
    TableSummary,
    TaskSummary,
    TrainingSummary,
)
from schemas.quantities import listed_counts, shown_bytes
from schemas.spec.data import VALIDATION

MAX_TABLES = 12
"""Only the largest tables get a line."""
UNDECLARED = frozenset({"output", "finite"})
"""Kinds of gates that every model must pass; they are shown only if they fail."""


def print_report(summary: Summary, console: Console) -> None:
    """Prints rows, results of training, every task's metric, each gate's verdict and reason, and where the model is.

    Of the serving check it prints the measurements, and the reason of each failed check.
    """
    print_data(summary, console)
    print_tasks(summary, console)
    if summary.serving:
        _print_serving(summary.serving, console)
    print_notes(summary, console)
    if summary.blessed is not None:
        console.print("[green]blessed[/]" if summary.blessed else f"[yellow]not blessed[/]: {_refused_by(summary)}")
    if summary.pushed or summary.status == "succeeded":
        say(f"pushed: {_pushed(summary)}", console)
    if summary.live:
        what = f"version {summary.live.version}" if summary.live.version else "nothing"
        say(f"live: {what} in {summary.live.folder}", console)
    if summary.cost:
        say(f"cost: {_cost(summary.cost)}", console)
    say(f"{summary.status} after {summary.total_seconds:.0f} s, {_cached(summary)}", console)


def _cost(cost: CostSummary) -> str:
    parts = [f"{cost.total:.4g} {cost.currency}"]
    if cost.per_million_examples is not None:
        parts.append(f"{cost.per_million_examples:.4g} for a million examples")
    if cost.training_per_billion_samples is not None:
        parts.append(f"the training alone {cost.training_per_billion_samples:.4g} for a billion samples")
    return ", ".join(parts)


def print_data(summary: Summary, console: Console) -> None:
    """Prints the rows of each split, and the results of training."""
    for split, rows in summary.rows.items():
        _print_rows(split, rows, console)
    if summary.training:
        _print_training(summary.training, summary.days.get(VALIDATION, []), console)


def print_tasks(summary: Summary, console: Console) -> None:
    """Prints every task's metric with each gate's bound, verdict and reason."""
    if not summary.tasks:
        return
    console.print(_table(summary.tasks))
    for name, task in summary.tasks.items():
        if told := calibrated(task.metrics):
            say(f"{name}: {told}", console)


def print_notes(summary: Summary, console: Console) -> None:
    """Prints the notes of all steps."""
    for note in summary.notes:
        say(f"note: {note}", console)


def _print_rows(split: str, rows: RowsSummary, console: Console) -> None:
    """Prints how many rows a split has, which were left out, and what each join of sources has found."""
    left_out = dict(rows.dropped)
    if rows.negatives_sampled_out:
        left_out["negatives sampled out"] = rows.negatives_sampled_out
    without = f" of {rows.read:,}; left out: {listed_counts(left_out)}" if left_out else ""
    say(f"{split}: {rows.written:,} rows{without}", console)
    for source, counts in rows.joined.items():
        say(f"  joined to {source}: {listed_counts(counts) or 'no rows'}", console)


def _pushed(summary: Summary) -> str:
    """Returns the version that the run's model was pushed as, and why it is not the live one if it is not."""
    pushed, live = summary.pushed, summary.live
    if pushed is None:
        return "nothing"
    said = f"version {pushed.version} in {pushed.path}"
    if live is None or live.version == pushed.version:
        return said
    if live.withdrawn is not None:
        return f"nothing: this model was version {pushed.version}, which was rolled back ({live.withdrawn})"
    return f"{said}, which is not live"


def _refused_by(summary: Summary) -> str:
    gates = not all(gate.passed for task in summary.tasks.values() for gate in task.gates)
    serving = summary.serving is not None and not summary.serving.blessed
    refused = [name for name, does in (("quality gates", gates), ("serving check", serving)) if does]
    return f"refused by the {' and the '.join(refused)}"


def _print_training(training: TrainingSummary, validation_days: Sequence[str], console: Console) -> None:
    if training.tables:
        console.print(_embedding_tables(training.tables))
        more = len(training.tables) - MAX_TABLES
        if more > 0:
            say(f"and {more} smaller tables, in the summary", console)
        console.print()
    say(
        f"trained: {training.examples:,} examples, {training.examples_per_s:,.0f} a second; "
        f"{training.input_wait:.1%} of the time was waiting for input",
        console,
    )
    if training.warm_start:
        start = training.warm_start
        last = f" that knows the days to {start.base_days[-1]}" if start.base_days else ""
        changes = [
            f"; {what}: {', '.join(names)}" for what, names in (("new", start.new), ("dropped", start.dropped)) if names
        ]
        say(f"warm start: from a checkpoint{last}{''.join(changes)}", console)
    if training.early_stopping:
        best = training.early_stopping
        why = f"; {best.reason}" if best.reason else ""
        told = f"model: of epoch {best.best_epoch + 1}, {best.metric} {best.best:.4f} on the validation split{why}"
        say(told, console)
    if training.refit:
        seen = f"{', '.join(training.refit.days)} as well, {training.refit.passes} passes"
        say(f"refit: after that the model was trained on {seen}: it has seen what it was validated on", console)
    elif validation_days:
        say(f"not learned from: {', '.join(validation_days)}, the validation days", console)
    if training.resumed_from_step:
        steps = ", ".join(map(str, training.resumed_from_step))
        say(f"resumed: training lost a process and went on from step {steps}", console)
    if training.checkpoint.passed_over:
        names = ", ".join(training.checkpoint.passed_over)
        say(f"damaged: training did not go on from {names}, but from the checkpoint before", console)
    if training.checkpoint.given_up:
        say(f"not written: {training.checkpoint.given_up} checkpoints, for the disk would not have them", console)
    if training.skipped_steps:
        say(f"skipped: {training.skipped_steps} steps whose loss or gradients were not finite", console)


def _embedding_tables(tables: dict[str, TableSummary]) -> Table:
    shown = table("table")
    for column in ("rows", "size", "admitted", "rejected", "expired", "evicted", "load", "unique"):
        shown.add_column(column, justify="right")
    largest = sorted(tables, key=lambda name: (-tables[name].bytes, name))[:MAX_TABLES]
    for name in largest:
        rows = tables[name]
        counts = (f"{number:,}" for number in (rows.admitted, rows.rejected, rows.expired, rows.evicted))
        ratios = ("" if ratio is None else f"{ratio:.2f}" for ratio in (rows.load_max_over_mean, rows.unique_share))
        shown.add_row(name, f"{rows.rows:,}", shown_bytes(rows.bytes), *counts, *ratios)
    return shown


def _table(tasks: dict[str, TaskSummary]) -> Table:
    on = any(gate.slice for task in tasks.values() for gate in _shown(task))
    shown = table("task", "metric", *(["on"] if on else []), "gate", "verdict", "reason")
    for name, task in tasks.items():
        first = [name, escape(_metric(task))]
        for gate in _shown(task):
            place = [escape(gate.slice or "all")] if on else []
            shown.add_row(*first, *place, _gate(gate), _verdict(passed=gate.passed), escape(gate.reason))
            first = ["", ""]
        if first[0]:
            shown.add_row(*first, *([""] if on else []), "none", "", "")
    return shown


def _shown(task: TaskSummary) -> list[GateVerdict]:
    return [gate for gate in task.gates if not (gate.passed and gate.kind in UNDECLARED)]


def _metric(task: TaskSummary) -> str:
    metric, value = ("rmse", task.rmse) if "rmse" in task.metrics else ("auc", task.auc)
    if value is None:
        return f"{metric} unknown"
    ends = task.intervals.get(metric)
    return f"{metric} {value:.4f}{f' [{ends[0]:.4f}, {ends[1]:.4f}]' if ends else ''}"


def _gate(gate: GateVerdict) -> str:
    if gate.kind in UNDECLARED:
        return gate.kind
    upper = "" if gate.upper_bound is None else f" to {gate.upper_bound:g}"
    return f"{gate.metric}{'' if gate.kind == 'value' else f' {gate.kind}'} {gate.bound:g}{upper}"


def _verdict(*, passed: bool) -> str:
    return "[green]pass[/]" if passed else "[red]fail[/]"


def _print_serving(serving: ServingSummary, console: Console) -> None:
    failed = [check for check in serving.checks if not check.passed]
    numbers = [shown_bytes(serving.model_bytes)]
    if serving.load_s is not None:
        numbers.append(f"ready after {serving.load_s:.1f} s")
    if serving.p99_ms is not None:
        load = f"{serving.load.candidates} candidates, clients: {serving.load.clients}"
        numbers.append(f"p50 {serving.p50_ms:.3g} ms, p99 {serving.p99_ms:.3g} ms ({load})")
    held = f"{len(serving.checks) - len(failed)} of {len(serving.checks)} checks passed"
    say(f"serving: {', '.join(numbers)}; {held}", console)
    for check in failed:
        console.print(f"  [red]fail[/] {escape(f'{check.name}: {check.reason}')}", highlight=False, soft_wrap=True)


def _cached(summary: Summary) -> str:
    cached = sum(step.cached for step in summary.steps.values())
    peak = max((step.peak_memory_bytes for step in summary.steps.values()), default=0)
    return f"{cached} of {len(summary.steps)} steps cached, peak memory {peak / 2**20:,.0f} MiB"
