"""The table at the end of a run."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pipelines.summary import Summary, TaskSummary


def print_report(summary: Summary, console: Console) -> None:
    """Prints every task's metric, each gate's verdict and reason, and where the model is."""
    if summary.tasks:
        console.print(_table(summary.tasks))
    for note in summary.notes:
        console.print(f"note: {note}", markup=False, highlight=False, soft_wrap=True)
    if summary.blessed is not None:
        console.print("[green]blessed[/]" if summary.blessed else "[yellow]not blessed[/]")
    if summary.pushed:
        _plain(console, f"pushed: version {summary.pushed.version} in {summary.pushed.path}")
    elif summary.status == "succeeded":
        _plain(console, "pushed: nothing")
    _plain(console, f"{summary.status} after {summary.total_seconds:.0f} s, {_cached(summary)}")


def _table(tasks: dict[str, TaskSummary]) -> Table:
    table = Table("task", "metric", "gate", "verdict", "reason", box=None, pad_edge=False)
    for name, task in tasks.items():
        metric, value = ("rmse", task.rmse) if task.auc is None else ("auc", task.auc)
        first = [name, f"{metric} {value:.4f}" if value is not None else f"{metric} unknown"]
        for gate in task.gates:
            verdict = "[green]pass[/]" if gate.passed else "[red]fail[/]"
            table.add_row(*first, f"{gate.kind} {gate.bound:g}", verdict, escape(gate.reason))
            first = ["", ""]
        if not task.gates:
            table.add_row(*first, "none", "", "")
    return table


def _cached(summary: Summary) -> str:
    cached = sum(step.cached for step in summary.steps.values())
    peak = max((step.peak_memory_bytes for step in summary.steps.values()), default=0)
    return f"{cached} of {len(summary.steps)} steps cached, peak memory {peak / 2**20:,.0f} MiB"


def _plain(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
