"""Groups examples in Beam for GAUC, NDCG and recall at k.

With TFMA's own `query_key`, a slice that contains one example of a group gets all of the group's examples, so that its
metrics count examples of other slices. Here a group contains the slice's examples only. Beam does not group by single
groups but by parts of a slice, which contain many groups each.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import tensorflow_model_analysis as tfma
from numpy.typing import NDArray
from tensorflow_model_analysis.slicer import slicer_lib

from components.steps.evaluator.metrics.block import BLOCK, MISSING, Block, Target, takes_part
from components.steps.evaluator.metrics.group_metrics import MeanSums, at_k, draws, gauc, grouped
from components.steps.evaluator.metrics.settings import Settings

GROUP_SUMS = "group_sums"
"""TFMA's extracts have a part's sums under this key: {target: {metric: MeanSums}}."""
_EXAMPLES_PER_PART = 50_000
_Rows = NDArray[np.uint64]
"""Group, unit, then labels and scores of every target as the bits of their float64: one array is fast to shuffle."""


class AddGroupSums(beam.PTransform):
    """Adds to the blocks of each slice the sums over its groups."""

    def __init__(self, settings: Settings, targets: Sequence[Target]) -> None:
        """Takes the models and tasks that have group metrics: the binary ones."""
        super().__init__()
        self._settings = settings
        self._targets = list(targets)

    def expand(self, blocks: Any) -> Any:
        """Returns the blocks and the sums, as extracts of one slice each."""
        sizes = beam.pvalue.AsDict(blocks | "Sizes" >> beam.Map(_size) | "SizeOfSlice" >> beam.CombinePerKey(sum))
        sums = (
            blocks
            | "Split" >> beam.FlatMap(_split, self._targets, sizes)
            | "Together" >> beam.GroupByKey()
            | "Sum" >> beam.Map(_summed, self._settings, self._targets, sizes)
        )
        return (blocks, sums) | beam.Flatten()


def _size(extracts: dict[str, Any]) -> tuple[Any, int]:
    return extracts[tfma.SLICE_KEY_TYPES_KEY][0], len(extracts[BLOCK])


def _split(
    extracts: dict[str, Any], targets: list[Target], sizes: dict[Any, int]
) -> Iterator[tuple[tuple[Any, str, int], _Rows]]:
    slice_key = extracts[tfma.SLICE_KEY_TYPES_KEY][0]
    block: Block = extracts[BLOCK]
    num_parts = math.ceil(sizes[slice_key] / _EXAMPLES_PER_PART)
    values = [each for target in targets for each in (block.labels[target[1]], block.scores[target])]
    for purpose, groups in block.groups.items():
        rows = np.stack([groups, block.units, *(each.view(np.uint64) for each in values)], axis=1)
        part_of = np.where(groups == MISSING, -1, (groups % np.uint64(num_parts)).astype(np.int64))
        for part in np.unique(part_of[part_of >= 0]).tolist():
            yield (slice_key, purpose, part), rows[part_of == part]


def _summed(
    together: tuple[tuple[Any, str, int], Iterable[_Rows]],
    settings: Settings,
    targets: list[Target],
    sizes: dict[Any, int],
) -> dict[str, Any]:
    (slice_key, purpose, _), parts = together
    rows = np.concatenate(list(parts))
    confidence = settings.confidence
    replicates = confidence.replicates if sizes[slice_key] >= settings.least_examples else 0
    drawn = draws(rows[:, 0], rows[:, 1], replicates, confidence.seed)
    sums: dict[Target, dict[str, MeanSums]] = {}
    for index, target in enumerate(targets):
        groups = rows[:, 0]
        labels, scores = (np.ascontiguousarray(rows[:, 2 + 2 * index + each]).view(np.float64) for each in (0, 1))
        if target[1] in settings.masked:
            mine = takes_part(labels)
            if not mine.any():
                continue
            groups, labels, scores = groups[mine], labels[mine], scores[mine]
            drawn_GR = draws(groups, rows[mine, 1], replicates, confidence.seed)
        else:
            drawn_GR = drawn
        # A score that is not finite leaves all metrics of the slice undefined later; here any number will do.
        examples = grouped(groups=groups, drawn_GR=drawn_GR, is_positive=labels > 0, scores=np.nan_to_num(scores))
        if purpose == "group" and settings.group is not None:
            sums[target] = {"gauc": gauc(examples, settings.group.weigh)}
        elif settings.list is not None:
            sums[target] = at_k(examples, settings.list.k)
    return {tfma.SLICE_KEY_TYPES_KEY: slicer_lib.slice_keys_to_numpy_array([slice_key]), GROUP_SUMS: sums}
