"""A block: the scored examples of a batch as arrays.

TFMA splits a batch into examples, and slices and counts them one by one, for 10 microseconds and more each. A block is
sliced and counted as a whole.
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
"""The hash of a missing value."""
Target = tuple[str, str]
"""A model's name in TFMA and a task."""


@dataclass(frozen=True)
class Block:
    """Scored examples.

    Attributes:
        ids: hash of each example.
        units: hash of each example's bootstrap unit.
        groups: hash of each example's group, by purpose: `group` or `list`; MISSING without one.
        labels: by task; NaN for an example that is masked for the task.
        scores: by model and task.
        masked: tasks that mask examples.
        weights: by task, for tasks with example weights; see `Part`.
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
        """Returns the examples that count for one task of one model: all that are not masked.

        Masked examples count too if their score is not finite: such a score would be served.
        """
        part = Part(self.ids, self.units, self.labels[target[1]], self.scores[target], self.weights.get(target[1]))
        if target[1] not in self.masked:
            return part
        return part.where(takes_part(part.labels) | ~np.isfinite(part.scores))


def takes_part(labels: Floats) -> NDArray[np.bool_]:
    """Says which examples of a task with masked ones take part."""
    return ~np.isnan(labels)


def hashes(values: Sequence[bytes]) -> Units:
    """Returns 64-bit hashes, never MISSING."""
    digests = b"".join(hashlib.blake2b(value, digest_size=8).digest() for value in values)
    return np.maximum(np.frombuffer(digests, "<u8").astype(np.uint64), np.uint64(1))


def column(batch: Any, name: str) -> list[Any]:
    """Returns the only (or first) value of each example in an Arrow batch of lists, None where it is missing."""
    index = batch.schema.get_field_index(name)
    if index < 0:  # No example of the batch has a value.
        return [None] * batch.num_rows
    return [values[0] if values else None for values in batch.column(index).to_pylist()]


def numbers(values: list[Any]) -> Floats:
    """Returns the values as floats, NaN where one is missing."""
    return np.array([np.nan if value is None else value for value in values], np.float64)


def keys(values: list[Any]) -> Units:
    """Returns the hash of each value, MISSING for None."""
    known = {value: None for value in values if value is not None}
    hashed = hashes([value if isinstance(value, bytes) else str(value).encode() for value in known])
    by_value = dict(zip(known, hashed.tolist(), strict=True))
    return np.array([by_value.get(value, int(MISSING)) for value in values], np.uint64)
