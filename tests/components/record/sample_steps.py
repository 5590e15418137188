"""Steps of a run on Kubeflow, as their tasks leave them."""

from sangam.components.record.journal import Journal
from sangam.components.record.kubeflow import task_file
from sangam.components.record.run import Step
from sangam.schemas.contracts.root import RunFolder


def write_step(run: RunFolder, step: Step) -> None:
    """Writes an ended step into the journal of its task."""
    Journal(file=task_file(run, step.name)).step_ended(step)
