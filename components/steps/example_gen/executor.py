"""Writes the examples of days that no earlier run has written, and lists the examples of all days of the run."""

import json
import logging
import posixpath
import time
from collections.abc import Mapping, Sequence
from typing import Any

import apache_beam as beam
from tfx import types
from tfx.dsl.io import fileio
from tfx.types import artifact_utils

from sangam.components.beam.execution import BeamExecutor
from sangam.components.beam.lines import WriteLines, read_lines
from sangam.components.examples.listing import DayExamples, Listing, write_listing
from sangam.components.logs.files.arrival import wait_for_logs
from sangam.components.logs.files.digests import digests_of, sha256_of
from sangam.components.logs.files.listing import OneListing, Storage, first_problems
from sangam.components.logs.files.resolve import (
    HISTORY,
    DataFile,
    Files,
    changed_files,
    days_of_window,
    fingerprint,
    resolve,
    without,
)
from sangam.components.logs.files.source_files import logs_of
from sangam.components.logs.files.storage import TfxStorage, open_file
from sangam.components.logs.joining.judged import counts_by_day, refuse_problems
from sangam.components.logs.joining.notes import notes_on_clocks
from sangam.components.logs.joining.pipeline import JoinRun, join
from sangam.components.logs.joining.plan import plan_of
from sangam.components.logs.negatives.collecting import Catalogs, collect, files_of_candidates, write_catalog
from sangam.components.logs.negatives.notes import notes_on_columns, notes_on_negatives
from sangam.components.logs.request import Request, parse, today_utc
from sangam.components.logs.rows.counts import FileCounts, refuse_errors, summed, with_joined
from sangam.components.logs.rows.equal_files import notes_on_equal_files, of_equal_sizes
from sangam.components.logs.tables.parts import with_parts, with_version
from sangam.components.reports.artifact_files import write_ingestion
from sangam.components.reports.ingestion import IngestionReport
from sangam.components.steps.example_gen.file_groups import FileGroup, file_groups
from sangam.components.steps.example_gen.inspection import inspect
from sangam.components.steps.example_gen.start import Start, starting_point
from sangam.components.steps.example_gen.store import DayStore, Unit, units_of
from sangam.components.steps.example_gen.workers import GroupCounts, ReadAndWrite
from sangam.schemas.derived.history import days_of_history, history_features
from sangam.schemas.derived.negatives import columns_of_candidates
from sangam.schemas.derived.sources import columns_of_log, columns_of_source, columns_read_of_log
from sangam.schemas.errors import UserError
from sangam.schemas.problems import listed
from sangam.schemas.spec.data import EVAL, TRAIN, DayLogs

_LOG = logging.getLogger(__name__)
_COUNTS_FILE, _JOINED_FOLDER, _CANDIDATES_FOLDER = "counts.jsonl", "joined", "candidates"

_Made = dict[Unit, tuple[DayExamples, list[FileCounts]]]
"""The examples of units, and the counts of their files."""


class Executor(BeamExecutor):
    """Resolves the days, reads the new ones, and counts the outcome of each row."""

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
        request = with_parts(with_version(request), TfxStorage())
        start = starting_point(request, storage)
        files = _resolved(request, storage, start)
        identities = _identities(request, files)
        main = files.of_log
        # On an object store the identities are no digests.
        digests = sha256_of(of_equal_sizes(main), open_file) if "://" in request.pipeline_root else identities
        # Days of a table may well be equal; its own files were compared when it was written by day.
        equal_notes = [] if request.table else notes_on_equal_files(main, digests, request.logs, open_file)
        units = units_of(files, request, identities)
        store = DayStore(request)
        made: _Made = {unit: known for unit in units if (known := store.find(unit))}
        new = [unit for unit in units if unit not in made]
        _LOG.info("ingestion date=%s num_files=%d known=%d new=%d", files.date, len(files.files), len(made), len(new))
        made |= self._make(new, store, request, start, files, examples.uri)
        counts = [count for unit in units if unit in made for count in made[unit][1]]
        with_rows = {(count.split, count.path) for count in counts}
        empty = [file.path for file in files.files if (file.split, file.path) not in with_rows]
        files = without(files, request.logs, empty)
        report = summed(files, counts, request.logs, request.columns)
        of_split = {
            split: tuple(made[unit][0] for unit in units if unit.split == split and unit in made)
            for split in (HISTORY, *files.splits)
        }
        history = of_split.pop(HISTORY)
        notes = [*request.notes, *start.notes, *_history_notes(request, start, files, history)]
        notes += [*equal_notes, *notes_on_columns(counts), *notes_on_clocks(request.logs, report)]
        meaning = notes_on_negatives(request, report)
        report = report.model_copy(
            update={
                "base": start.base,
                "notes": [*notes, *meaning],
                "meaning": meaning,
                "history_days": [str(day.day) for day in history],
                "window_start": _window_start(request),
            }
        )
        write_listing(examples.uri, Listing(splits=of_split, history=history))
        _describe(examples, files, report, start)
        write_ingestion(examples.uri, report)
        for split, of_report in report.splits.items():
            _LOG.info("ingested split=%s %s", split, of_report.model_dump_json())

    def _make(
        self, units: Sequence[Unit], store: DayStore, request: Request, start: Start, files: Files, uri: str
    ) -> _Made:
        """Writes the examples of units that have rows."""
        read = columns_read_of_log(request.logs, request.columns)
        once = {file.path: file for unit in units for file in unit.files}
        inspected = inspect(list(once.values()), request.logs, read, open_file)
        units = [unit for unit in units if any(file.path in inspected.rows for file in unit.files)]
        if not units:
            return {}
        with_rows = {unit: [file for file in unit.files if file.path in inspected.rows] for unit in units}
        store.remove_abandoned(time.time())
        folders = {unit: store.begin(unit) for unit in units}
        scratch, beside = posixpath.join(uri, _JOINED_FOLDER), posixpath.join(uri, _CANDIDATES_FOLDER)
        try:
            joined = self._join([file for unit in units for file in with_rows[unit]], request, files, scratch)
            if joined:
                _require_unchanged(request, start, files)
                refuse_problems(joined, request)
            catalogs = self._catalogs(with_rows, request, start, files, joined, beside)
            counts_file = posixpath.join(uri, _COUNTS_FILE)
            planned = [
                group
                for unit, folder in folders.items()
                for group in file_groups(with_rows[unit], inspected.rows, folder)
            ]
            with self._make_beam_pipeline() as pipeline:
                worker = ReadAndWrite(request, joined.folder if joined else None, catalogs)
                _read_and_write(pipeline, planned, worker, counts_file)
            written = _read_counts(counts_file)
            # Before the counts are judged: a file written meanwhile may have caused any error.
            _require_unchanged(request, start, files)
            refuse_errors(_planned_files(planned), [count for group in written for count in group.counts])
            by_day = counts_by_day(joined) if joined else {}
            made = {
                unit: store.finish(
                    unit,
                    folder,
                    [name for group in written if group.folder == folder for name in group.names],
                    with_joined(
                        [count for group in written if group.folder == folder for count in group.counts],
                        by_day.get(unit.day or "", {}),
                    ),
                )
                for unit, folder in folders.items()
            }
        except BaseException:
            for folder in folders.values():
                store.remove(folder)
            raise
        finally:
            store.remove(scratch)
            store.remove(beside)
        return made

    def _join(self, main: Sequence[DataFile], request: Request, files: Files, folder: str) -> JoinRun | None:
        """Joins the sources to files of the main log; None if the spec has none."""
        logs = request.logs
        if not isinstance(logs, DayLogs) or not logs.sources:
            return None
        plan = plan_of(logs, main, files.sources)
        for name, source in sorted(logs.sources.items()):
            read = {file.path for file in plan.of_source(name)}
            of_source = [file for file in files.sources if file.split == name and file.path in read]
            inspect(of_source, logs_of(logs, source), columns_of_source(source, request.columns), open_file)
        return join(self._make_beam_pipeline, plan, request, folder)

    def _catalogs(
        self,
        with_rows: Mapping[Unit, Sequence[DataFile]],
        request: Request,
        start: Start,
        files: Files,
        joined: JoinRun | None,
        folder: str,
    ) -> Catalogs:
        """Collects the candidates of the units' days; none without data.negatives."""
        logs = request.logs
        if logs.negatives is None:
            return {}
        days = {unit: files_of_candidates(files, logs, unit.split, unit.day) for unit in with_rows}
        of_units = {file.path: file for of_unit in with_rows.values() for file in of_unit}
        needed = {file.path: file for each in days.values() for of_day in each.values() for file in of_day}
        others = [file for path, file in needed.items() if path not in of_units]
        columns = columns_of_candidates(logs.negatives, request.inputs, request.columns)
        lenient = logs.model_copy(update={"missing_days": "skip"}) if isinstance(logs, DayLogs) else logs
        inspected = inspect(others, lenient, columns_of_log(logs, columns), open_file)
        others = [file for file in others if file.path in inspected.rows]
        found = collect(
            self._make_beam_pipeline,
            [*of_units.values(), *others],
            request,
            joined.folder if joined else None,
            folder,
        )
        _require_unchanged(request, start, files)
        if problems := sorted(each.error for each in found.values() if each.error):
            raise UserError("\n".join(first_problems(problems)))
        return {
            unit.day or unit.split: write_catalog(
                [[found[file.path] for file in of_day if file.path in found] for of_day in by_day.values()], folder
            )
            for unit, by_day in days.items()
        }


def _planned_files(planned: Sequence[FileGroup]) -> list[tuple[str, str]]:
    """Returns split and path of every log file."""
    return [(group.split, path) for group in planned for path in group.paths]


_AGAIN = "run it again when the logs of the window are complete"


def _identities(request: Request, files: Files) -> dict[str, str]:
    """Returns the identity of each file's content: its digest; on an object store size and time.

    Raises:
        UserError: after a driver, if the files have changed since the cache key.
    """
    if "://" in request.pipeline_root:
        # Without a cache of digests, every file of the window would be read.
        return {file.path: f"{file.facts.size_bytes} {file.facts.mtime_ns}" for file in files.all_files}
    digests = digests_of(files.all_files, request.pipeline_root, open_file)
    if request.fingerprint and fingerprint(files, request.data_root, digests) != request.fingerprint:
        raise UserError(f"{request.data_root}: files were added, removed or changed since the run began; {_AGAIN}")
    return digests


def _resolved(request: Request, storage: Storage, start: Start) -> Files:
    return resolve(request.logs, request.date, request.data_root, storage, after=start.after, inputs=request.inputs)


def _window_start(request: Request) -> str | None:
    if not isinstance(request.logs, DayLogs):
        return None
    return days_of_window(request.logs, request.date)[TRAIN][0].isoformat()


def _history_notes(request: Request, start: Start, files: Files, history: Sequence[DayExamples]) -> list[str]:
    """Returns a note on the days of history features; empty without such features."""
    features = history_features(request.inputs)
    if not features or not isinstance(request.logs, DayLogs):
        return []
    window = days_of_window(request.logs, request.date)[TRAIN]
    first = next(day for day in window if day.isoformat() > start.after)
    wanted = len(days_of_history(request.inputs, window, first))
    earlier = f"; of the {wanted} days before {first}, the first to train on, {len(history)} have logs"
    return [
        f"features {listed(list(features))} count the days before a row's own{earlier if wanted else ''}; those of the "
        f"served model are as of {files.days()[EVAL][0]}: they count only earlier days"
    ]


def _require_unchanged(request: Request, start: Start, before: Files) -> None:
    after = _resolved(request, TfxStorage(), start)
    changed = changed_files(before, after)
    if changed:
        texts = [f"{text} while it was read; {_AGAIN}" for text in changed]
        raise UserError("\n".join(first_problems(texts)))


def _read_and_write(
    pipeline: beam.Pipeline, planned: Sequence[FileGroup], worker: ReadAndWrite, counts_file: str
) -> None:
    _ = (
        pipeline
        | "FileGroups" >> beam.Create(planned, reshuffle=False)
        | "Spread" >> beam.Reshuffle()
        | "ReadAndWrite" >> beam.ParDo(worker)
        | "WriteCounts" >> WriteLines(counts_file)
    )


def _read_counts(path: str) -> list[GroupCounts]:
    counts = [GroupCounts.model_validate_json(line) for line in read_lines(path)]
    fileio.remove(path)
    return counts


def _describe(examples: types.Artifact, files: Files, report: IngestionReport, start: Start) -> None:
    examples.split_names = artifact_utils.encode_split_names(list(files.splits))
    if report.date:
        examples.set_string_custom_property("date", report.date)
        examples.set_string_custom_property("days", json.dumps(report.days))
    if start.base:
        examples.set_string_custom_property("base", start.base.checkpoint_uri)
        examples.set_string_custom_property("base_days", json.dumps(start.base.days))
        examples.set_string_custom_property("base_transform_graph", start.base.transform_graph_uri)
