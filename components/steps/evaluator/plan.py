"""What an evaluation measures, as a spec says: which tasks of which models, on which slices."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from typing_extensions import assert_never

from components.steps.evaluator.metrics.block import Target
from components.steps.evaluator.metrics.measured import BASELINE, CANDIDATE
from components.steps.evaluator.metrics.settings import Settings, new_id_features, settings_of, slices_of
from components.steps.evaluator.metrics.tally import Measures, new_totals
from schemas.spec import Inputs
from schemas.spec.metrics import new_id_slice
from schemas.spec.release import Evaluation, Gate
from schemas.spec.tasks import BinaryTask, RegressionTask, Task, WatchTimeTask

SliceSpec = dict[str, str | None]
"""The features and keys of a slice, by name, each with the value that is measured; None: every value."""


@dataclass(frozen=True)
class Plan:
    """What is measured.

    Attributes:
        settings: how.
        slices: the first has no features: all examples.
        kinds: `binary` or `regression`, by task.
        labels: column, by task.
        new_id_features: whose new ids form slices, if the candidate says which ids it knows.
        baseline_tasks: tasks that the baseline scores on the same examples; empty without a baseline.
    """

    settings: Settings
    slices: tuple[SliceSpec, ...]
    kinds: dict[str, str]
    labels: dict[str, str]
    new_id_features: frozenset[str]
    baseline_tasks: frozenset[str] = frozenset()

    @property
    def targets(self) -> list[Target]:
        """Models and their tasks."""
        return [(CANDIDATE, task) for task in self.kinds] + [
            (BASELINE, task) for task in self.kinds if task in self.baseline_tasks
        ]

    @property
    def group_targets(self) -> list[Target]:
        """Models and tasks that have group metrics."""
        return [target for target in self.targets if self.kinds[target[1]] == "binary"]

    def measures(self) -> Measures:
        """Returns what is counted of every slice."""
        confidence = self.settings.confidence
        totals = {
            target: new_totals(self.kinds[target[1]], is_weighted=target[1] in self.settings.weights)
            for target in self.targets
        }
        return Measures(totals, confidence.replicates, confidence.seed)


def plan_of(
    *, inputs: Inputs, evaluation: Evaluation, gates: Sequence[Gate], baseline_tasks: Collection[str] = ()
) -> Plan:
    """Returns what a spec wants to be measured.

    Args:
        inputs: tasks, features and keys.
        evaluation: slices, groups and intervals.
        gates: their slices are measured too.
        baseline_tasks: tasks that the baseline scores on the same examples; empty without a baseline.
    """
    return Plan(
        settings=settings_of(inputs, evaluation, gates),
        slices=tuple(_slices(inputs, evaluation, gates)),
        kinds={name: _kind(task) for name, task in inputs.tasks.items()},
        labels={task: inputs.label_of(task) for task in inputs.tasks},
        new_id_features=frozenset(new_id_features(inputs, evaluation)),
        baseline_tasks=frozenset(baseline_tasks),
    )


def _slices(inputs: Inputs, evaluation: Evaluation, gates: Sequence[Gate]) -> Iterator[SliceSpec]:
    yield {}
    for slice_ in slices_of(evaluation, gates):
        yield {name: None if value is None else str(value) for name, value in slice_}
    for feature in new_id_features(inputs, evaluation):
        yield {new_id_slice(feature): None}


def _kind(task: Task) -> str:
    match task:
        case BinaryTask():
            return "binary"
        case RegressionTask() | WatchTimeTask():
            return "regression"
        case _:
            assert_never(task)
