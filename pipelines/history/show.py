"""What `sangam show` prints of one run."""

import datetime
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from components.registry.record import BlessedModel, read_records
from pipelines.console import say, table
from pipelines.history.runs import LocalRun
from pipelines.history.verdict import verdict
from pipelines.local.outputs import Output, read_outputs
from pipelines.local.result.report import print_data, print_notes, print_tasks
from pipelines.local.result.summary import Summary
from pipelines.times import duration, minute
from schemas.quantities import shown_bytes


@dataclass(frozen=True)
class Shown:
    """A run with what lies elsewhere in its root.

    Attributes:
        outputs: of its steps.
        by_hand: the blessing that a person has given its model.
    """

    run: LocalRun
    outputs: tuple[Output, ...]
    by_hand: BlessedModel | None

    @property
    def verdict(self) -> str:
        """What became of the run, in one sentence."""
        return verdict(self.run, self.by_hand)

    def document(self, now: datetime.datetime) -> dict[str, Any]:
        """Returns the run as JSON: as in `sangam runs`, and the verdict, the summary, and the paths of artifacts."""
        summary = json.loads(self.run.summary.model_dump_json()) if self.run.summary else None
        artifacts = [
            {"step": output.step, "output": output.key, "path": str(output.path), "there": output.path.is_dir()}
            for output in self.outputs
        ]
        return {**self.run.document(now), "verdict": self.verdict, "artifacts": artifacts, "summary": summary}


def read_shown(run: LocalRun) -> Shown:
    """Reads what lies beside a run's folder."""
    outputs = tuple(output for output in read_outputs(run.root).outputs if run.id in output.runs)
    models = {str(output.path) for output in outputs if output.key == "model"}
    records = read_records(run.root.path, run.ranker) if run.ranker and run.state == "refused" else []
    by_hand = [record for record in records if record.because and record.model_uri in models]
    return Shown(run, outputs, by_hand[-1] if by_hand else None)


def print_shown(shown: Shown, now: datetime.datetime, console: Console) -> None:
    """Prints the verdict first, then tasks, data and training, steps, and where everything is."""
    run, summary = shown.run, shown.run.summary
    say(shown.verdict, console)
    took = run.seconds(now)
    date = f" for {run.date}" if run.date else ""
    when = f", started {minute(run.started)} UTC" if run.started else ""
    say(
        f"run {run.id} of {run.ranker or 'an unknown ranker'}{date}{when}{f', took {duration(took)}' if took else ''}",
        console,
    )
    if summary:
        print_tasks(summary, console)
        print_data(summary, console)
        print_notes(summary, console)
        if summary.steps:
            console.print(_steps(summary))
    for output in shown.outputs:
        say(f"{output.step} {output.key}: {output.path}{'' if output.path.is_dir() else ', removed'}", console)
    if summary and summary.pushed:
        say(f"version: {summary.pushed.path}{'' if Path(summary.pushed.path).is_dir() else ', removed'}", console)
    say(f"logs: {run.folder.logs}", console)


def _steps(summary: Summary) -> Any:
    shown = table("step", "state")
    for name in ("seconds", "memory"):
        shown.add_column(name, justify="right")
    for name, step in summary.steps.items():
        shown.add_row(name, step.state, f"{step.seconds:.1f}", shown_bytes(step.peak_memory_bytes))
    return shown
