"""The join on Beam: slices of both sides by bucket, joined rows by chunk of the main log; see `spill`."""

import posixpath
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from pydantic import BaseModel, ConfigDict
from tfx.dsl.io import fileio

from sangam.components.beam.lines import WriteLines, read_lines
from sangam.components.logs.files.storage import open_file
from sangam.components.logs.joining.bucket import join_bucket
from sangam.components.logs.joining.joined_rows import JoinedFolder, chunk_numbers, write_chunk
from sangam.components.logs.joining.plan import JoinFile, JoinPlan
from sangam.components.logs.joining.slices import cut, together
from sangam.components.logs.joining.spill import Ref, SpillWriter, read_spilled
from sangam.components.logs.joining.splitting import FileReport, Splitter, row_schema, source_schema
from sangam.components.logs.request import Request
from sangam.schemas.errors import UserError
from sangam.schemas.spec.data import DayLogs

_FILES, _COUNTS = "files.jsonl", "counts.jsonl"
_REPORTS = "reports"


class BucketCounts(BaseModel):
    """The counts of one bucket of a source: by day of the main log (as an ordinal) and outcome."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    counts: dict[int, dict[str, int]]


@dataclass(frozen=True)
class JoinRun:
    """The result of a join.

    Attributes:
        plan: plan of the join.
        folder: folder of the joined columns.
        files: counts of the rows read.
        buckets: counts of the buckets.
    """

    plan: JoinPlan
    folder: JoinedFolder
    files: tuple[FileReport, ...]
    buckets: tuple[BucketCounts, ...]


def join(make_pipeline: Callable[[], Any], plan: JoinPlan, request: Request, folder: str) -> JoinRun:
    """Writes the joined columns of some days.

    Args:
        make_pipeline: returns a new pipeline.
        plan: plan of the join.
        request: request to ingestion.
        folder: folder for the chunks; it must be empty.
    """
    fileio.makedirs(folder)
    with make_pipeline() as pipeline:
        _apply(pipeline, plan, request, folder)
    return JoinRun(
        plan,
        JoinedFolder(folder, plan.numbers()),
        files=tuple(FileReport.model_validate_json(line) for line in read_lines(posixpath.join(folder, _FILES))),
        buckets=tuple(BucketCounts.model_validate_json(line) for line in read_lines(posixpath.join(folder, _COUNTS))),
    )


def _apply(pipeline: beam.Pipeline, plan: JoinPlan, request: Request, folder: str) -> None:
    read = (
        pipeline
        | "FilesToJoin" >> beam.Create(plan.files, reshuffle=False)
        | "SpreadFiles" >> beam.Reshuffle()
        | "Split" >> beam.ParDo(_Split(plan, request, folder)).with_outputs(_REPORTS, main="slices")
    )
    joined = (
        read["slices"]
        | "ByBucket" >> beam.GroupByKey()
        | "JoinBucket" >> beam.ParDo(_JoinBucket(plan, request, folder)).with_outputs(_REPORTS, main="pieces")
    )
    _ = joined["pieces"] | "ByChunk" >> beam.GroupByKey() | "WriteChunk" >> beam.Map(_write_chunk, folder)
    for name, reports in ((_FILES, read[_REPORTS]), (_COUNTS, joined[_REPORTS])):
        path = posixpath.join(folder, name)
        _ = reports | f"Write {name}" >> WriteLines(path)


def _write_chunk(chunk: tuple[int, Iterable[tuple[str, Ref]]], folder: str) -> None:
    number, pieces = chunk
    write_chunk(folder, number, [(source, read_spilled(ref)) for source, ref in pieces])


class _Split(beam.DoFn):
    """Yields slices by source and bucket. A data error becomes part of the report, as in ingestion."""

    def __init__(self, plan: JoinPlan, request: Request, folder: str):
        self._num_buckets, self._request, self._folder = plan.buckets, request, folder

    def process(self, file: JoinFile) -> Iterator[Any]:
        logs, event_time = self._request.logs, self._request.inputs.event_time
        assert isinstance(logs, DayLogs)
        assert event_time is not None
        report = FileReport(source=file.source, path=file.path)
        slices = []
        try:
            with open_file(file.path) as opened, SpillWriter(self._folder) as spill:
                splitter = Splitter(logs, self._request.columns, event_time, self._num_buckets)
                for each in splitter.split(file, opened, report):
                    if isinstance(each, FileReport):
                        report = each
                    else:
                        source, bucket, content = each
                        slices.append((f"{source}/{bucket}", (not file.source, spill.write(content))))
        except UserError as mistake:
            report = report.model_copy(update={"error": str(mistake)})
        except OSError as error:
            text = f"{file.path}: cannot be read (got: {error}); make sure that nothing removes it"
            report = report.model_copy(update={"error": text})
        yield from slices
        yield beam.pvalue.TaggedOutput(_REPORTS, report.model_dump_json())


class _JoinBucket(beam.DoFn):
    """Yields joined rows by chunk."""

    def __init__(self, plan: JoinPlan, request: Request, folder: str):
        self._days, self._absent, self._request, self._folder = plan.days, plan.absent, request, folder

    def process(self, bucket: tuple[str, Iterable[tuple[bool, Ref]]]) -> Iterator[Any]:
        key, slices = bucket
        name = key.split("/")[0]
        assert isinstance(self._request.logs, DayLogs)
        source = self._request.logs.sources[name]
        both = list(slices)
        rows = together((read_spilled(ref) for is_main, ref in both if is_main), row_schema(source))
        others = together(
            (read_spilled(ref) for is_main, ref in both if not is_main), source_schema(source, self._request.columns)
        )
        joined = join_bucket(source, rows, others, self._days, self._absent[name])
        if joined.batch is not None:
            with SpillWriter(self._folder) as spill:
                pieces = [
                    (number, (name, spill.write(content)))
                    for number, content in cut(joined.batch, chunk_numbers(joined.batch))
                ]
            yield from pieces
        counts = BucketCounts(source=name, counts={day: dict(count) for day, count in joined.counts.items()})
        yield beam.pvalue.TaggedOutput(_REPORTS, counts.model_dump_json())
