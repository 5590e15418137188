"""Computes results of each day's examples once: later runs read them."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import apache_beam as beam
import pyarrow as pa

from sangam.components.arrow_files import read_arrow
from sangam.components.examples.day_results import missing, read_result, result_file, write_result
from sangam.components.examples.listing import DayExamples
from sangam.schemas.errors import UserError

_LOG = logging.getLogger(__name__)
_PARTS_OF_DAY = 8
"""Maximum number of results of a day, each of consecutive files, for as many workers."""

Compute = Callable[[Sequence[str]], bytes]
"""Computes the result of files of examples, an Arrow file. It must be picklable, and depend only on the key."""


@dataclass(frozen=True)
class _Part:
    files: tuple[str, ...]
    result: str


@dataclass(frozen=True)
class ByDay:
    """A step's results of each day's examples.

    Results do not pass through Beam: workers write them, and the step's process reads one after another.

    Attributes:
        step: name of the step.
        key: everything that a result depends on besides the examples.
        compute: computes a result.
    """

    step: str
    key: tuple[str, ...]
    compute: Compute

    def complete(self, days: Iterable[DayExamples], pipeline: Callable[[], beam.Pipeline]) -> None:
        """Computes the missing results.

        Args:
            days: days of all splits.
            pipeline: returns an empty pipeline; called only if a result is missing.
        """
        parts = [part for day in days for part in self._parts(day)]
        absent = set(missing([part.result for part in parts]))
        new = [part for part in parts if part.result in absent]
        _LOG.info("event=results_by_day step=%s parts=%s new=%s", self.step, len(parts), len(new))
        if new:
            with pipeline() as started:
                _ = (
                    started
                    | "Parts" >> beam.Create(new, reshuffle=False)
                    | "Spread" >> beam.Reshuffle()
                    | "Compute" >> beam.ParDo(_ComputePart(self.compute))
                )

    def results(self, days: Iterable[DayExamples]) -> Iterator[pa.Table]:
        """Yields all results of days in their order."""
        for day in days:
            for part in self._parts(day):
                content = read_result(part.result)
                if content is None:
                    raise UserError(f"{part.result}: is gone; do not remove files during a run")
                yield read_arrow(content, part.result)

    def _parts(self, day: DayExamples) -> Iterator[_Part]:
        size = -(-len(day.files) // _PARTS_OF_DAY)
        for start in range(0, len(day.files), size or 1):
            result = result_file(day.folder, self.step, *self.key, str(start), str(size))
            yield _Part(day.files[start : start + size], result)


class _ComputePart(beam.DoFn):
    def __init__(self, compute: Compute):
        self._compute = compute

    def process(self, part: _Part) -> None:
        write_result(part.result, self._compute(part.files))
