"""A block of examples as arrays: what is left of a batch once the models have scored it.

TFMA takes a batch apart into examples, slices each, and adds each to the metrics by itself, 10 microseconds and more
each time. A block is sliced and counted as a whole.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.steps.evaluator.metrics.totals import Part, Units
from components.steps.evaluator.metrics.totals_histogram import Floats

BLOCK = "block"
"""The key of a block among TFMA's extracts."""
MISSING = np.uint64(0)
"""The hash of no value."""
Target = tuple[str, str]
"""A model's name in TFMA and a task."""


@dataclass(frozen=True)
class Block:
    """Examples.

    Attributes:
        ids: hash of each example.
        units: hash of what the bootstrap draws.
        groups: hash of each example's group by what groups are for, `group` or `list`; MISSING without one.
        labels: by task; NaN for an example that takes no part in the task.
        scores: by model and task.
        masked: tasks in which not every example takes part.
        weights: by task, of those that declare any; see `Part`.
    """

    ids: Units
    units: Units
    groups: dict[str, Units]
    labels: dict[str, Floats]
    scores: dict[Target, Floats]
    masked: frozenset[str] = frozenset()
    weights: dict[str, Floats] = field(default_factory=dict)

    def __len__(self) -> int:
        """Returns the number of examples."""
        return len(self.ids)

    def where(self, rows: NDArray[np.generic]) -> "Block":
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

    def part(self, target: Target) -> Part:
        """Returns what the metrics of one task of one model need: the examples that take part in the task.

        And those whose score is no finite number, whether they do or not: such a score would be served.
        """
        part = Part(self.ids, self.units, self.labels[target[1]], self.scores[target], self.weights.get(target[1]))
        if target[1] not in self.masked:
            return part
        return part.where(takes_part(part.labels) | ~np.isfinite(part.scores))


def takes_part(labels: Floats) -> NDArray[np.bool_]:
    """Says which examples take part in a task in which not all do."""
    return ~np.isnan(labels)


def hashes(values: Sequence[bytes]) -> Units:
    """Returns 64-bit hashes of texts, never MISSING."""
    digests = b"".join(hashlib.blake2b(value, digest_size=8).digest() for value in values)
    return np.maximum(np.frombuffer(digests, "<u8").astype(np.uint64), np.uint64(1))


def column(batch: Any, name: str) -> list[Any]:
    """Returns the only (or first) value of each example in an Arrow batch of lists, None where it is missing."""
    place = batch.schema.get_field_index(name)
    if place < 0:  # No example of the batch has one.
        return [None] * batch.num_rows
    return [values[0] if values else None for values in batch.column(place).to_pylist()]


def numbers(values: list[Any]) -> Floats:
    """Returns labels or marks, NaN where one is missing."""
    return np.array([np.nan if value is None else value for value in values], np.float64)


def keys(values: list[Any]) -> Units:
    """Returns the hash of each value of a feature of ids, MISSING without one."""
    known = {value: None for value in values if value is not None}
    hashed = hashes([value if isinstance(value, bytes) else str(value).encode() for value in known])
    by_value = dict(zip(known, hashed.tolist(), strict=True))
    return np.array([by_value.get(value, int(MISSING)) for value in values], np.uint64)
