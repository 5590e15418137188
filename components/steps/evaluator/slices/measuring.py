"""Measures models on Beam: scores examples, slices, counts and groups them, and writes the metrics of every slice.

Tallies travel as bytes. Of other objects Beam estimates the size, by pickling the first ones at every stage: for two
models of four tasks that took longer than all counting.
"""

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.coders import PickleCoder
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from sangam.components.examples.blocks import rows_of
from sangam.components.steps.evaluator.metrics import group_sums
from sangam.components.steps.evaluator.metrics.block import Block, joined
from sangam.components.steps.evaluator.metrics.group_sums import SliceCodes
from sangam.components.steps.evaluator.metrics.measured import encoded, is_all, write_measured
from sangam.components.steps.evaluator.metrics.tally import Tally
from sangam.components.steps.evaluator.models.examples import read_with_blocks
from sangam.components.steps.evaluator.models.loaded import load
from sangam.components.steps.evaluator.models.scoring import Models, scores_of
from sangam.components.steps.evaluator.plan import Plan
from sangam.components.steps.evaluator.slices.blocks import block_of, joined_codes
from sangam.components.steps.evaluator.slices.slicing import count

LEAST_COUNTED = 65_536
"""Minimum examples that are counted at once, from one or more batches."""
EXAMPLES_PER_PART = 50_000
"""Examples whose groups are measured together."""
_CODER = PickleCoder()
_TALLIES, _GROUPS, _SIZES = "tallies", "groups", "sizes"


def measure(
    pipeline: beam.Pipeline, *, sources: Sequence[Any], models: Models, plan: Plan, num_parts: int, folder: str
) -> None:
    """Adds the evaluation to a pipeline.

    Args:
        pipeline: Beam pipeline.
        sources: sources of examples for `models.examples.read`.
        models: models to measure.
        plan: tasks, models and slices to measure.
        num_parts: number of parts of the groups, each of which fits memory.
        folder: folder for the results, which `measured.read_measured` reads.
    """
    has_groups = plan.settings.group is not None or plan.settings.list is not None
    counting = _Count(models, plan, num_parts if has_groups else 0)
    counted = (
        pipeline
        | "Sources" >> beam.Create(list(sources))
        # Without it an engine reads all sources in one task.
        | "Spread" >> beam.Reshuffle()
        | "Count" >> beam.ParDo(counting).with_outputs(_GROUPS, _SIZES, main=_TALLIES)
    )
    # Beam does not type single outputs of several; Flink shuffles only typed pairs.
    tallies = counted[_TALLIES] | "Tallies" >> beam.Map(_same).with_output_types(tuple[str, bytes])
    if has_groups:
        tallies = _with_group_sums(tallies, counted[_GROUPS], counted[_SIZES], plan)
    (
        tallies
        | "OfSlice" >> beam.GroupByKey()
        | "Result" >> beam.Map(_result, plan)
        | "Everything" >> beam.GroupByKey()
        | "Write" >> beam.Map(_write, folder)
    )


def _with_group_sums(tallies: Any, rows: Any, sizes: Any, plan: Plan) -> Any:
    sizes = sizes | "Size" >> beam.Map(_same).with_output_types(tuple[str, int])
    sizes = sizes | "SizeOfSlice" >> beam.CombinePerKey(sum)
    sums = (
        rows
        | "Groups" >> beam.GroupByKey()
        | "Sum" >> beam.FlatMap(_summed, plan, beam.pvalue.AsDict(sizes))
        | "Apart" >> beam.Reshuffle()
    )
    # Beam's Java fuser, which Flink and Spark use, refuses the job without both: it fuses what is before a Flatten with
    # it, and finds that its output is "consumed but never produced".
    return (tallies | "AlsoApart" >> beam.Reshuffle(), sums) | "Both" >> beam.Flatten()


class _Count(beam.DoFn):
    """Converts sources to tallies by slice, and to examples by group."""

    def __init__(self, models: Models, plan: Plan, num_parts: int) -> None:
        self._models = models
        self._plan = plan
        self._measures = plan.measures()
        self._num_parts = num_parts

    def setup(self) -> None:
        for path in self._models.paths.values():
            load(path)

    def start_bundle(self) -> None:
        self._tallies: dict[str, Tally] = {}
        self._waiting: list[tuple[Block, list[SliceCodes]]] = []

    def process(self, source: Any) -> Iterator[Any]:
        for blocks, batch in read_with_blocks(source, self._plan.read):
            scores = scores_of(blocks, self._models)
            self._waiting.append(block_of(batch, scores, self._plan, functools.partial(rows_of, blocks)))
            if sum(len(block) for block, _ in self._waiting) >= LEAST_COUNTED:
                yield from self._count()

    def finish_bundle(self) -> Iterator[Any]:
        end, windows = GlobalWindow().max_timestamp(), [GlobalWindow()]
        for tagged in self._count():
            yield beam.pvalue.TaggedOutput(tagged.tag, WindowedValue(tagged.value, end, windows))
        for name, tally in self._tallies.items():
            tally.compact()
            yield WindowedValue((name, _CODER.encode(tally)), end, windows)
            yield beam.pvalue.TaggedOutput(_SIZES, WindowedValue((name, tally.num_examples), end, windows))
        self._tallies = {}

    def _count(self) -> Iterator[Any]:
        """Counts the waiting examples, and yields them by group."""
        if not self._waiting:
            return
        blocks, codes = zip(*self._waiting, strict=True)
        self._waiting = []
        block, every = joined(blocks), joined_codes(codes)
        count(block, every, self._measures, self._tallies)
        if self._num_parts:
            for key, rows in group_sums.split(block, every, self._plan.group_targets, self._num_parts):
                yield beam.pvalue.TaggedOutput(_GROUPS, (key, _CODER.encode(rows)))


def _same(of_slice: tuple[str, Any]) -> tuple[str, Any]:
    return of_slice


def _summed(
    together: tuple[tuple[str, int], Iterable[bytes]], plan: Plan, sizes: dict[str, int]
) -> Iterator[tuple[str, bytes]]:
    (by, _), parts = together
    measures = plan.measures()
    rows = group_sums.joined(map(_CODER.decode, parts))
    for name, sums in group_sums.summed(by, rows, plan.settings, plan.group_targets, sizes):
        tally = Tally(measures)
        tally.add_means(sums)
        yield name, _CODER.encode(tally)


def _result(of_slice: tuple[str, Iterable[bytes]], plan: Plan) -> tuple[None, Any]:
    name, tallies = of_slice
    tally, settings = Tally(plan.measures()), plan.settings
    for other in map(_CODER.decode, tallies):
        tally.merge(other)
    result = tally.result(settings.least_examples, with_curves=is_all(name))
    return None, encoded(name, result, settings.confidence.level)


def _write(everything: tuple[None, Iterable[Any]], folder: str) -> None:
    write_measured(everything[1], folder)
