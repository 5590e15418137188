"""The report that is printed at the end of a run."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sangam.components.record.outcome import ending_lines
from sangam.components.record.run import CostReport, RunRecord
from sangam.components.reports.evaluation import GateVerdict, TaskVerdict, calibrated
from sangam.components.reports.headline import headline_of
from sangam.components.reports.ingestion import SAMPLED, SplitReport
from sangam.components.reports.serving import ServingVerdict
from sangam.components.reports.training import TableReport, TrainingReport
from sangam.pipelines.console import say, table
from sangam.schemas.derived.cost import serving_price
from sangam.schemas.quantities import listed_counts, shown_bytes, shown_seconds
from sangam.schemas.spec.data import VALIDATION

MAX_TABLES = 12
"""Number of tables in the report, the largest."""
UNDECLARED = frozenset({"output", "finite"})
"""Kinds of gates that every model must pass; shown only if they fail."""


def print_report(record: RunRecord, console: Console) -> None:
    """Prints rows, results of training, every task's metric, each gate's verdict and reason, and the model's path.

    For the serving check, prints the measurements and the reason of each failed check.
    """
    print_data(record, console)
    print_tasks(record, console)
    if record.serving:
        _print_serving(record.serving, console)
    print_notes(record, console)
    if record.cost:
        say(f"cost: {_cost(record.cost)}", console)
    for line in ending_lines(record):
        say(line, console)


def _cost(cost: CostReport) -> str:
    parts = [f"{cost.total:.4g} {cost.currency}"]
    if cost.per_million_examples is not None:
        parts.append(f"{cost.per_million_examples:.4g} for a million examples")
    if cost.training_per_billion_samples is not None:
        parts.append(f"the training alone {cost.training_per_billion_samples:.4g} for a billion samples")
    if cost.serving_per_million_candidates is not None:
        parts.append(
            serving_price(cost.currency, cost.serving_per_million_candidates, cost.live_per_million_candidates)
        )
    return ", ".join(parts)


def print_data(record: RunRecord, console: Console) -> None:
    """Prints the rows of each split, and the results of training."""
    for split, rows in record.rows.items():
        _print_rows(split, rows, console)
    if record.training:
        _print_training(record.training, record.days.get(VALIDATION, []), console)


def print_tasks(record: RunRecord, console: Console) -> None:
    """Prints every task's metric beside the last model's, then each gate's verdict and reason."""
    if not record.tasks:
        return
    console.print(_tasks(record.tasks))
    console.print()
    console.print(_gates(record.tasks))
    for name, task in record.tasks.items():
        if told := calibrated(task.metrics):
            say(f"{name}: {told}", console)


def print_notes(record: RunRecord, console: Console) -> None:
    """Prints the warnings, then the notes of all steps."""
    for warning in record.warnings:
        say(f"warning: {warning}", console)
    for note in record.notes:
        say(f"note: {note}", console)


def _print_rows(split: str, rows: SplitReport, console: Console) -> None:
    """Prints the number of rows of a split, the dropped rows, and the counts of each join of sources."""
    left_out = dict(rows.dropped)
    if rows.negatives_sampled_out:
        left_out["negatives sampled out"] = rows.negatives_sampled_out
    without = f" of {rows.read:,}; left out: {listed_counts(left_out)}" if left_out else ""
    sampled = f"; sampled rows: {rows.candidates[SAMPLED]:,}" if rows.candidates else ""
    say(f"{split}: {rows.written_of_logs:,} rows{without}{sampled}", console)
    for source, counts in rows.joined.items():
        say(f"  joined to {source}: {listed_counts(counts) or 'no rows'}", console)


def _print_training(training: TrainingReport, validation_days: Sequence[str], console: Console) -> None:
    if training.tables:
        console.print(_embedding_tables(training.tables))
        more = len(training.tables) - MAX_TABLES
        if more > 0:
            say(f"and {more} smaller tables, in the summary", console)
        console.print()
    for_ranks = f", {100 * training.rank_wait:.1f} % for other ranks" if training.rank_wait else ""
    say(
        f"trained: {training.examples:,} examples, {training.examples_per_s:,.0f} a second; "
        f"{100 * training.input_wait:.1f} % of the epochs' time was waiting for input{for_ranks}",
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
        moment = f" after its step {best.best_step:,}" if best.is_within_epoch else ""
        told = (
            f"model: of epoch {best.best_epoch + 1}{moment}, {best.metric} {best.best:.4f} on the validation split{why}"
        )
        say(told, console)
    if training.refit:
        rows = ", ".join(training.refit.days) or "the validation split"
        seen = f"{rows} as well, {training.refit.passes:g} passes"
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


def _embedding_tables(tables: dict[str, TableReport]) -> Table:
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


def _tasks(tasks: dict[str, TaskVerdict]) -> Table:
    shown = table("task", "metric", "value", "pred/obs", "ECE", "labels", "bound", "last model", "difference")
    for name, task in tasks.items():
        row = headline_of(task)
        last = "" if row.last is None else f"{row.last:.4f}"
        difference = Text(row.shown_difference, {"good": "green", "bad": "red"}.get(row.tone, ""))
        bound = row.bound_text or "none"
        calibration = (row.shown_calibration, row.shown_calibration_error)
        cells = (row.metric, row.shown_value, *calibration, row.shown_rate, bound, last or "none", difference)
        shown.add_row(name, *cells)
    return shown


def _gates(tasks: dict[str, TaskVerdict]) -> Table:
    on = any(gate.slice for task in tasks.values() for gate in _shown(task))
    shown = table("task", *(["on"] if on else []), "gate", "verdict", "reason")
    for name, task in tasks.items():
        first = name
        for gate in _shown(task):
            place = [gate.slice or "all"] if on else []
            shown.add_row(first, *place, _gate(gate), _verdict(passed=gate.passed), gate.reason)
            first = ""
        if first:
            shown.add_row(first, *([""] if on else []), "none", "", "")
    return shown


def _shown(task: TaskVerdict) -> list[GateVerdict]:
    return [gate for gate in task.gates if not (gate.passed and gate.kind in UNDECLARED)]


def _gate(gate: GateVerdict) -> str:
    if gate.kind in UNDECLARED:
        return gate.kind
    upper = "" if gate.upper_bound is None else f" to {gate.upper_bound:g}"
    return f"{gate.metric}{'' if gate.kind == 'value' else f' {gate.kind}'} {gate.bound:g}{upper}"


def _verdict(*, passed: bool) -> Text:
    return Text("pass", "green") if passed else Text("fail", "red")


def _print_serving(serving: ServingVerdict, console: Console) -> None:
    failed = [check for check in serving.checks if not check.passed]
    numbers = [shown_bytes(serving.model_bytes)]
    if serving.load_s is not None:
        numbers.append(f"ready after {shown_seconds(serving.load_s)}")
    if serving.p99_ms is not None:
        load = f"{serving.load.candidates} candidates, clients: {serving.load.clients}"
        numbers.append(f"p50 {serving.p50_ms:.3g} ms, p99 {serving.p99_ms:.3g} ms ({load})")
    held = f"{len(serving.checks) - len(failed)} of {len(serving.checks)} checks passed"
    say(f"serving: {', '.join(numbers)}; {held}", console)
    for check in failed:
        line = Text.assemble("  ", ("fail", "red"), f" {check.name}: {check.reason}")
        console.print(line, highlight=False, soft_wrap=True)
