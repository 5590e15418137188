"""Reads the files on Beam and writes the splits."""

import json
import logging
import posixpath
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
from tfx import types
from tfx.components.util import examples_utils
from tfx.dsl.components.base import base_beam_executor
from tfx.dsl.io import fileio
from tfx.proto import example_gen_pb2
from tfx.types import artifact_utils
from tfx_bsl.coders.example_coder import RecordBatchToExamples

from components.reports.artifact_files import write_ingestion
from components.reports.ingestion import IngestionReport
from components.steps.example_gen.files.arrival import wait_for_logs
from components.steps.example_gen.files.digests import digests_of
from components.steps.example_gen.files.listing import OneListing, first_problems
from components.steps.example_gen.files.resolve import Files, changed_files, fingerprint, resolve
from components.steps.example_gen.files.storage import TfxStorage, open_file
from components.steps.example_gen.inspection import Plan, plan
from components.steps.example_gen.readers import formats
from components.steps.example_gen.request import Request, parse, today_utc
from components.steps.example_gen.rows.conversion import convert
from components.steps.example_gen.rows.counts import FileCounts, summed
from components.steps.example_gen.rows.file_counting import FileCounting
from components.steps.example_gen.rows.limits import limits_of
from components.steps.example_gen.rows.sampling import sampled, sampling_of
from components.steps.example_gen.sources import Source
from components.steps.example_gen.start import Start, starting_point
from components.steps.example_gen.writer import ExampleWriter
from schemas.errors import UserError

_LOG = logging.getLogger(__name__)
_COUNTS = "counts"
_COUNTS_FILE = "files.jsonl"


class Executor(base_beam_executor.BaseBeamExecutor):
    """Resolves the days, inspects and reads the files, and counts what happened to each row."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Writes the Examples artifact.

        Raises:
            UserError: for logs that do not fit the spec.
        """
        del input_dict
        today = today_utc()
        request = parse(exec_properties, today)
        # Kubeflow Pipelines runs no driver. After a driver's wait this returns at once.
        wait_for_logs(request, TfxStorage(), today)
        examples = artifact_utils.get_single_instance(output_dict["examples"])
        storage = OneListing(TfxStorage())
        start = starting_point(request, storage)
        files = resolve(request.logs, request.date, request.data_root, storage, after=start.after)
        _require_files_of_driver(request, files)
        planned = plan(files, request.logs, request.columns, open_file)
        _LOG.info("ingestion date=%s num_files=%d after=%s", files.date, len(planned.files.files), start.after)
        with self._make_beam_pipeline() as pipeline:
            _read_and_write(pipeline, planned, request, examples.uri)
        counts = _read_counts(examples.uri)
        # Before the counts are judged: a file written meanwhile may have caused any error.
        again = resolve(request.logs, request.date, request.data_root, TfxStorage(), after=start.after)
        _require_unchanged(files, again)
        report = summed(planned.files, counts, request.logs, request.columns)
        report = report.model_copy(update={"base": start.base, "notes": list(start.notes)})
        _describe(examples, planned.files, report, start)
        write_ingestion(examples.uri, report)
        for split, of_split in report.splits.items():
            _LOG.info("ingested split=%s %s", split, of_split.model_dump_json())


_AGAIN = "run it again when the logs of the window are complete"


def _require_files_of_driver(request: Request, files: Files) -> None:
    """After a driver, the files must still be those of the cache key."""
    if not request.fingerprint:
        return
    digests = digests_of(files.files, request.pipeline_root, open_file)
    if fingerprint(files, request.data_root, digests) != request.fingerprint:
        raise UserError(f"{request.data_root}: files were added, removed or changed since the run began; {_AGAIN}")


def _require_unchanged(before: Files, after: Files) -> None:
    changed = changed_files(before, after)
    if changed:
        texts = [f"{text} while it was read; {_AGAIN}" for text in changed]
        raise UserError("\n".join(first_problems(texts)))


def _read_and_write(pipeline: beam.Pipeline, planned: Plan, request: Request, uri: str) -> None:
    for split in planned.files.splits:
        fileio.makedirs(_folder(uri, split))
    _ = (
        pipeline
        | "Sources" >> beam.Create(planned.sources, reshuffle=False)
        | "Spread" >> beam.Reshuffle()
        | "ReadAndWrite" >> beam.ParDo(_ReadAndWrite(request, uri))
        | "WriteCounts" >> beam.io.WriteToText(posixpath.join(uri, _COUNTS_FILE), num_shards=1, shard_name_template="")
    )


def _folder(uri: str, split: str) -> str:
    return posixpath.join(uri, f"Split-{split}")


class _ReadAndWrite(beam.DoFn):
    """Writes the examples of a source in the order of the logs, and returns the counts of each of its files as JSON.

    A mistake in the data is part of the counts, not an exception, which Beam would wrap, retry, and show only once. The
    executor raises all of them after the pipeline.
    """

    def __init__(self, request: Request, uri: str):
        self._request, self._uri = request, uri
        self._limits = limits_of(request.logs, request.date)

    def process(self, source: Source) -> Iterable[str]:
        with ExampleWriter(_folder(self._uri, source.split), source) as writer:
            for path in source.paths:
                counting = FileCounting(source.split, path)
                try:
                    for batch in self._batches(path, counting):
                        for example in RecordBatchToExamples(batch):
                            writer.write(example)
                except UserError as mistake:
                    counting.error = str(mistake)
                except OSError as error:
                    counting.error = f"{path}: cannot be read (got: {error}); make sure that nothing removes it"
                yield counting.counts().model_dump_json()

    def _batches(self, path: str, counting: FileCounting) -> Iterator[pa.RecordBatch]:
        """Yields a file's rows, converted and sampled."""
        request = self._request
        sampling = sampling_of(request.inputs, counting.split)
        file_name = posixpath.relpath(path, request.data_root or ".")
        with open_file(path) as file:
            for rows in formats.read(request.logs, file, path, request.columns):
                first_row = counting.rows_seen
                converted = convert(rows.batch, request.columns, path, first_row, self._limits)
                counting.add(rows, converted)
                batch = converted.batch
                if sampling:
                    after_sampling = sampled(batch, first_row + converted.rows, sampling, file_name)
                    counting.add_sampled(after_sampling)
                    batch = after_sampling.batch
                yield batch


def _read_counts(uri: str) -> list[FileCounts]:
    path = posixpath.join(uri, _COUNTS_FILE)
    with fileio.open(path, "r") as file:
        counts = [FileCounts.model_validate_json(line) for line in file.read().splitlines() if line]
    fileio.remove(path)
    return counts


def _describe(examples: types.Artifact, files: Files, report: IngestionReport, start: Start) -> None:
    examples.split_names = artifact_utils.encode_split_names(list(files.splits))
    examples_utils.set_payload_format(examples, example_gen_pb2.FORMAT_TF_EXAMPLE)
    examples_utils.set_file_format(examples, "tfrecords_gzip")
    if report.date:
        examples.set_string_custom_property("date", report.date)
        examples.set_string_custom_property("days", json.dumps(report.days))
    if start.base:
        examples.set_string_custom_property("base", start.base.checkpoint_uri)
        examples.set_string_custom_property("base_days", json.dumps(start.base.days))
        examples.set_string_custom_property("base_transform_graph", start.base.transform_graph_uri)
