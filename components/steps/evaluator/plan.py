"""Derives an evaluation's plan from a spec: models, tasks and slices."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from sangam.components.examples.blocks import Types
from sangam.components.steps.evaluator.metrics.block import Target
from sangam.components.steps.evaluator.metrics.measured import BASELINE, CANDIDATE, UNCALIBRATED
from sangam.components.steps.evaluator.metrics.settings import Settings, new_id_features, settings_of, slices_of
from sangam.components.steps.evaluator.metrics.tally import Measures, new_totals
from sangam.schemas.contracts.calibration import Calibration
from sangam.schemas.derived.columns import columns, task_columns
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.metrics import new_id_slice
from sangam.schemas.spec.release import Evaluation, Gate
from sangam.schemas.spec.tasks import BinaryTask, RegressionTask, Task, WatchTimeTask

SliceSpec = dict[str, str | None]
"""The features and keys of a slice, by name, each with the value that is measured; None: every value."""


@dataclass(frozen=True)
class Plan:
    """The measurements of an evaluation.

    Attributes:
        settings: settings of the metrics.
        slices: slices; the first has no features: all examples.
        kinds: `binary` or `regression`, by task.
        labels: label column, by task.
        new_id_features: features whose new ids form slices, if the candidate reports its known ids.
        baseline_tasks: tasks that the baseline scores on the same examples; empty without a baseline.
        calibrations: calibrations of the candidate, by task, whose uncalibrated predictions are also measured.
        columns: columns that tasks, slices, groups and units read.
    """

    settings: Settings
    slices: tuple[SliceSpec, ...]
    kinds: dict[str, str]
    labels: dict[str, str]
    new_id_features: frozenset[str]
    baseline_tasks: frozenset[str] = frozenset()
    calibrations: Mapping[str, Calibration] = field(default_factory=dict)
    columns: Types = ()

    @property
    def targets(self) -> list[Target]:
        """Models and their tasks."""
        tasks_of = {CANDIDATE: self.kinds, BASELINE: self.baseline_tasks, UNCALIBRATED: self.calibrations}
        return [(model, task) for model, tasks in tasks_of.items() for task in self.kinds if task in tasks]

    @property
    def group_targets(self) -> list[Target]:
        """Models and tasks that have group metrics."""
        return [(model, task) for model, task in self.targets if self.kinds[task] == "binary" and model != UNCALIBRATED]

    @property
    def needs_ids(self) -> bool:
        """Whether every example needs the hash of all its values: to draw it, or to sample it for ranks.

        It costs as much as reading the columns, which few rankers' metrics need.
        """
        return self.settings.confidence.by is None or "regression" in self.kinds.values()

    @property
    def read(self) -> Types | None:
        """Columns that are measured, sliced, grouped or drawn by, with their types; None: all columns."""
        return None if self.needs_ids else self.columns

    def measures(self) -> Measures:
        """Returns the settings of the counts of every slice."""
        confidence = self.settings.confidence
        totals = {
            (model, task): new_totals(
                self.kinds[task],
                is_weighted=task in self.settings.weights,
                has_intervals=model != UNCALIBRATED,
                declared=self.settings.declared[task] if model != UNCALIBRATED else {},
            )
            for model, task in self.targets
        }
        return Measures(totals, confidence.replicates, confidence.seed)


def plan_of(
    *,
    inputs: Inputs,
    evaluation: Evaluation,
    gates: Sequence[Gate],
    baseline_tasks: Collection[str] = (),
    calibrations: Mapping[str, Calibration] | None = None,
) -> Plan:
    """Returns the plan of a spec.

    Args:
        inputs: tasks, features and keys.
        evaluation: slices, groups and intervals.
        gates: gates, whose slices are measured too.
        baseline_tasks: tasks that the baseline scores on the same examples; empty without a baseline.
        calibrations: calibrations of the candidate, by task.
    """
    settings = settings_of(inputs, evaluation, gates)
    read = {column.name for task in inputs.tasks for column in task_columns(inputs, task)}
    read |= set(settings.columns.values())
    read |= {column.name for part in settings.sliced_by.values() for column in part.reads()}
    return Plan(
        settings=settings,
        slices=tuple(_slices(inputs, evaluation, gates)),
        kinds={name: _kind(task) for name, task in inputs.tasks.items()},
        labels={task: inputs.label_of(task) for task in inputs.tasks},
        new_id_features=frozenset(new_id_features(inputs, evaluation)),
        baseline_tasks=frozenset(baseline_tasks),
        calibrations=dict(calibrations or {}),
        columns=tuple((column.name, column.type) for column in columns(inputs) if column.name in read),
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
