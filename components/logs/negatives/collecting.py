"""Collects the candidates of days on Beam, and writes those of each day to a file that its workers read."""

import functools
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa
from pydantic import BaseModel, ConfigDict
from tfx.dsl.io import fileio

from sangam.components.beam.lines import WriteLines, read_lines
from sangam.components.logs.files.resolve import CANDIDATES, DataFile, Files
from sangam.components.logs.joining.joined_rows import JoinedFolder, read_joined
from sangam.components.logs.joining.slices import to_bytes, together
from sangam.components.logs.joining.spill import Ref, SpillWriter, read_spilled
from sangam.components.logs.negatives.catalog import Candidates, Catalog, candidates_of, distinct, newest
from sangam.components.logs.request import Request
from sangam.components.logs.rows.conversion import convert, without
from sangam.components.logs.rows.limits import limits_of
from sangam.schemas.derived.days import parse_day
from sangam.schemas.derived.negatives import columns_of_candidates, earlier_days
from sangam.schemas.errors import UserError
from sangam.schemas.spec.data import Logs

_FILES = "files.jsonl"
_BATCHES_AT_ONCE = 32

Catalogs = Mapping[str, tuple[Ref, Ref]]
"""The candidates of each day, or of each split of logs without days."""


class FileCandidates(BaseModel):
    """A worker's result for one file: where its items and pairs are, or what is wrong with it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str
    items: Ref | None = None
    pairs: Ref | None = None
    error: str | None = None


def files_of_candidates(files: Files, logs: Logs, split: str, day: str | None) -> dict[str, list[DataFile]]:
    """Returns the files with candidates of a day's rows, by day, the day itself last; of a split its own."""
    if day is None:
        return {split: files.of_split(split)}
    days = [str(each) for each in (*earlier_days(logs, parse_day(day)), parse_day(day))]
    read = (*files.files, *(file for file in files.sources if file.split == CANDIDATES))
    return {each: [file for file in read if file.day == each] for each in days}


def collect(
    make_pipeline: Any, files: Sequence[DataFile], request: Request, joined: JoinedFolder | None, folder: str
) -> dict[str, FileCandidates]:
    """Returns the candidates of log files, by path.

    Args:
        make_pipeline: returns a new pipeline.
        files: files with rows.
        request: request to ingestion.
        joined: columns of the sources.
        folder: folder for the results, for all workers.
    """
    fileio.makedirs(folder)
    path = posixpath.join(folder, _FILES)
    with make_pipeline() as pipeline:
        _ = (
            pipeline
            | "FilesOfCandidates" >> beam.Create(list(files), reshuffle=False)
            | "SpreadCandidates" >> beam.Reshuffle()
            | "Collect" >> beam.ParDo(_Collect(request, joined, folder))
            | "WriteCandidates" >> WriteLines(path)
        )
    found = [FileCandidates.model_validate_json(line) for line in read_lines(path)]
    return {each.path: each for each in found}


class _Collect(beam.DoFn):
    def __init__(self, request: Request, joined: JoinedFolder | None, folder: str):
        self._request, self._joined, self._folder = request, joined, folder

    def process(self, file: DataFile) -> Iterator[str]:
        try:
            found = self._found(file)
            with SpillWriter(self._folder) as spill:
                result = FileCandidates(
                    path=file.path,
                    items=spill.write(to_bytes(found.items)),
                    pairs=spill.write(to_bytes(found.pairs)),
                )
        except UserError as mistake:
            result = FileCandidates(path=file.path, error=str(mistake))
        except OSError as error:
            text = f"{file.path}: cannot be read (got: {error}); make sure that nothing removes it"
            result = FileCandidates(path=file.path, error=text)
        yield result.model_dump_json()

    def _found(self, file: DataFile) -> Candidates:
        parts: list[Candidates] = []
        for batch in self._batches(file):
            negatives = self._request.logs.negatives
            assert negatives is not None
            parts.append(candidates_of(batch, negatives, self._request.inputs.event_time))
            if len(parts) == _BATCHES_AT_ONCE:
                parts = [_together(parts)]
        return _together(parts)

    def _batches(self, file: DataFile) -> Iterator[pa.RecordBatch]:
        request, logs = self._request, self._request.logs
        assert logs.negatives is not None
        columns = columns_of_candidates(logs.negatives, request.inputs, request.columns)
        limits = limits_of(logs, file.day)
        first_row = 0
        for rows, is_left_out in read_joined(logs, columns, file.path, self._joined):
            yield without(convert(rows.batch, columns, file.path, first_row, limits), is_left_out).batch
            first_row += rows.batch.num_rows


def _together(parts: Sequence[Candidates]) -> Candidates:
    return Candidates(newest([part.items for part in parts]), distinct([part.pairs for part in parts]))


def write_catalog(days: Sequence[Sequence[FileCandidates]], folder: str) -> tuple[Ref, Ref]:
    """Writes the candidates of a day, and returns where they are.

    Args:
        days: candidates of the files of each day, the last one that of the rows; only its pairs count.
        folder: folder for the file.
    """
    items = newest([_read(file.items) for of_day in days for file in of_day])
    pairs = distinct([_read(file.pairs) for file in days[-1]])
    with SpillWriter(folder) as spill:
        return spill.write(to_bytes(items)), spill.write(to_bytes(pairs))


@functools.lru_cache(maxsize=1)
def read_catalog(items: Ref, pairs: Ref) -> Catalog:
    """Returns the candidates of a day."""
    return Catalog(Candidates(_read(items), _read(pairs)))


def _read(ref: Ref | None) -> pa.RecordBatch:
    assert ref is not None
    return together([read_spilled(ref)])
