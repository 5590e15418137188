"""A block: scored examples as arrays, which are sliced and counted together."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sangam.components.steps.evaluator.metrics.draws import Units
from sangam.components.steps.evaluator.metrics.totals import Part
from sangam.components.steps.evaluator.metrics.totals_histogram import Floats

Target = tuple[str, str]
"""A model, `candidate`, `baseline` or `uncalibrated`, and a task."""


@dataclass(frozen=True)
class Block:
    """Scored examples.

    Attributes:
        ids: hash of each example, by which ranks are sampled; of its unit where there are none.
        units: hash of each example's bootstrap unit.
        groups: hash of each example's group, by the feature or key that groups; 0 without one.
        labels: labels by task; NaN for an example that is masked for the task.
        scores: scores by model and task, float32 or float64.
        masked: tasks that mask examples.
        weights: weights by task, for tasks with example weights; see `Part`.
    """

    ids: Units
    units: Units
    groups: dict[str, Units]
    labels: dict[str, Floats]
    scores: dict[Target, NDArray[np.floating[Any]]]
    masked: frozenset[str] = frozenset()
    weights: dict[str, Floats] = field(default_factory=dict)

    def __len__(self) -> int:
        """Returns the number of examples."""
        return len(self.ids)

    def where(self, rows: NDArray[np.generic] | slice) -> "Block":
        """Returns some of the examples."""
        return Block(
            self.ids[rows],
            self.units[rows],
            {name: values[rows] for name, values in self.groups.items()},
            {task: values[rows] for task, values in self.labels.items()},
            {target: values[rows] for target, values in self.scores.items()},
            self.masked,
            {task: values[rows] for task, values in self.weights.items()},
        )

    def taking_part(self, target: Target) -> NDArray[np.bool_] | None:
        """Returns which examples count for one task of one model; None: all of them.

        Masked examples count too if their score is not finite: such a score would be served.
        """
        if target[1] not in self.masked:
            return None
        return takes_part(self.labels[target[1]]) | ~np.isfinite(self.scores[target])

    def num_examples(self, target: Target) -> int:
        """Returns how many examples count for one task of one model."""
        rows = self.taking_part(target)
        return len(self) if rows is None else int(rows.sum())

    def part(self, target: Target) -> Part:
        """Returns the examples that count for one task of one model."""
        part = Part(self.ids, self.units, self.labels[target[1]], self.scores[target], self.weights.get(target[1]))
        rows = self.taking_part(target)
        return part if rows is None else part.where(rows)


def joined(blocks: Sequence[Block]) -> Block:
    """Returns the examples of all blocks, of which there is at least one."""
    first = blocks[0]
    if len(blocks) == 1:
        return first
    return Block(
        np.concatenate([block.ids for block in blocks]),
        np.concatenate([block.units for block in blocks]),
        {name: np.concatenate([block.groups[name] for block in blocks]) for name in first.groups},
        {task: np.concatenate([block.labels[task] for block in blocks]) for task in first.labels},
        {target: np.concatenate([block.scores[target] for block in blocks]) for target in first.scores},
        first.masked,
        {task: np.concatenate([block.weights[task] for block in blocks]) for task in first.weights},
    )


def takes_part(labels: Floats) -> NDArray[np.bool_]:
    """Returns which examples of a task with masked ones take part."""
    return ~np.isnan(labels)
