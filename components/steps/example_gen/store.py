"""The examples of each day, shared by all runs whose window has the day.

    <root>/examples/<ranker>/generation             a random text: without it, no examples are from the cache of TFX
    <root>/examples/<ranker>/<day>-<key>/day.json   written last: the contents of the day
    <root>/examples/<ranker>/<day>-<key>/<attempt>/ the files of examples; with `unfinished` until all are written

A day's key covers the content of its files, the part of the spec that examples depend on, and the code. Logs without
days have one such folder for each split.
"""

import dataclasses
import hashlib
import json
import logging
import posixpath
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pydantic
from pydantic import BaseModel, ConfigDict
from tfx.dsl.io import fileio

from sangam.components.examples.day_results import read_result, write_result
from sangam.components.examples.listing import DayExamples
from sangam.components.logs.files.resolve import DataFile, Files
from sangam.components.logs.files.storage import TfxStorage
from sangam.components.logs.joining.plan import files_read
from sangam.components.logs.negatives.collecting import files_of_candidates
from sangam.components.logs.negatives.sampled_rows import numbers_of
from sangam.components.logs.request import Request, relative
from sangam.components.logs.rows.counts import FileCounts
from sangam.components.logs.rows.sampling import sampling_of
from sangam.components.logs.rows.shares import share_of
from sangam.components.steps.example_gen.abandoned import UNFINISHED, remove_abandoned, remove_attempt
from sangam.schemas.contracts.example_files import DIGEST_DIGITS
from sangam.schemas.contracts.root import Root
from sangam.schemas.derived.days import parse_day
from sangam.schemas.derived.sources import sources_of

_LOG = logging.getLogger(__name__)
_DAY_FILE, _GENERATION_FILE = "day.json", "generation"


@dataclass(frozen=True)
class Unit:
    """The files of one split and day, which are read together.

    Attributes:
        split: split of the rows, or `HISTORY`.
        day: YYYY-MM-DD; None for logs without days.
        files: files in the order of the logs.
        key: key of the examples.
    """

    split: str
    day: str | None
    files: tuple[DataFile, ...]
    key: str


class StoredDay(BaseModel):
    """The file `day.json`: a day's examples, and the counts of each log file that has rows, by its relative path."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    attempt: str
    names: tuple[str, ...]
    counts: tuple[FileCounts, ...]


def units_of(files: Files, request: Request, identities: Mapping[str, str]) -> tuple[Unit, ...]:
    """Returns the units of a run, by split and day.

    Args:
        files: files of the run.
        request: request to ingestion.
        identities: identities of each file's content, by path.
    """
    groups: dict[tuple[str, str | None], list[DataFile]] = {}
    for file in (*files.history, *files.files):
        groups.setdefault((file.split, file.day), []).append(file)
    return tuple(
        Unit(split, day, tuple(of_day), _key(split, day, of_day, files, request, identities))
        for (split, day), of_day in groups.items()
    )


def _key(
    split: str,
    day: str | None,
    files: Sequence[DataFile],
    all_files: Files,
    request: Request,
    identities: Mapping[str, str],
) -> str:
    logs = request.logs
    sampling = sampling_of(request.inputs, split)
    document = {
        "day": day,
        "files": [[relative(file.path, request), identities[file.path]] for file in files],
        "format": [logs.format, logs.list_separator, logs.max_list_length, logs.max_id_bytes],
        "times": logs.times.model_dump(mode="json"),
        "columns": [dataclasses.asdict(column) for column in request.columns],
        "sources": [request.inputs.event_time, _sources(day, all_files.sources, request, identities)],
        "negatives": _negatives(split, day, all_files, request, identities),
        "shared": dataclasses.asdict(shared) if (shared := share_of(logs, split)) else None,
        "sampling": dataclasses.asdict(sampling) if sampling else None,
        "code": request.code,
    }
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def _sources(
    day: str | None, others: Sequence[DataFile], request: Request, identities: Mapping[str, str]
) -> dict[str, Any]:
    """Returns the dependencies of a day's joined columns."""
    return {
        name: [
            source.model_dump(mode="json"),
            [
                [file.day, relative(file.path, request), identities[file.path]]
                for file in files_read(others, name, source, [parse_day(str(day))])
            ],
        ]
        for name, source in sources_of(request.logs).items()
    }


def _negatives(
    split: str, day: str | None, files: Files, request: Request, identities: Mapping[str, str]
) -> list[Any] | None:
    """Returns the dependencies of a day's sampled rows."""
    negatives = request.logs.negatives
    if negatives is None:
        return None
    numbers = numbers_of(negatives, split)
    earlier = [
        [each, [[relative(file.path, request), identities[file.path]] for file in of_day]]
        for each, of_day in files_of_candidates(files, request.logs, split, day).items()
        if each != day
    ]
    return [negatives.model_dump(mode="json"), split if day is None else day, dataclasses.asdict(numbers), earlier]


class DayStore:
    """The examples of one ranker's days."""

    def __init__(self, request: Request):
        """Takes the request for the ranker's name and the pipeline root."""
        self._request = request
        self._root = Root(request.pipeline_root).examples(request.name)

    def generation(self) -> str:
        """Returns the random text of this store; a store created after a removal has another."""
        path = posixpath.join(self._root, _GENERATION_FILE)
        if not fileio.exists(path):
            fileio.makedirs(self._root)
            write_result(path, uuid.uuid4().hex.encode())
        return (read_result(path) or b"").decode()

    def find(self, unit: Unit) -> tuple[DayExamples, list[FileCounts]] | None:
        """Returns the examples of a unit and the counts of its files; None if they do not exist."""
        path = posixpath.join(self._folder(unit), _DAY_FILE)
        if (content := read_result(path)) is None:
            return None
        try:
            stored = StoredDay.model_validate_json(content)
        except pydantic.ValidationError as error:
            _LOG.warning("event=day_unreadable path=%s error=%s", path, str(error).splitlines()[0])
            return None
        examples, counts = self._of(unit, stored)
        if not all(map(fileio.exists, examples.files)):
            _LOG.warning("event=day_incomplete path=%s", path)
            return None
        return examples, counts

    def begin(self, unit: Unit) -> str:
        """Returns a new folder for the examples of a unit."""
        folder = posixpath.join(self._folder(unit), uuid.uuid4().hex)
        fileio.makedirs(folder)
        write_result(posixpath.join(folder, UNFINISHED), b"")
        return folder

    def finish(
        self, unit: Unit, folder: str, names: Sequence[str], counts: Sequence[FileCounts]
    ) -> tuple[DayExamples, list[FileCounts]]:
        """Publishes examples, once their files are complete."""
        by_path = {count.path: count for count in counts}
        in_order = [by_path[file.path] for file in unit.files if file.path in by_path]
        stored = StoredDay(
            attempt=posixpath.basename(folder),
            names=tuple(sorted(names)),
            counts=tuple(count.model_copy(update={"path": relative(count.path, self._request)}) for count in in_order),
        )
        # First, so that no run reads files of an attempt that counts as abandoned.
        fileio.remove(posixpath.join(folder, UNFINISHED))
        write_result(posixpath.join(self._folder(unit), _DAY_FILE), stored.model_dump_json(indent=1).encode() + b"\n")
        return self._of(unit, stored)

    def remove_abandoned(self, now: float) -> None:
        """Removes the files of runs that were killed long before `now`, in seconds since the epoch."""
        remove_abandoned(self._root, now, TfxStorage())

    def remove(self, folder: str) -> None:
        """Removes the files of an attempt."""
        remove_attempt(folder)

    def _folder(self, unit: Unit) -> str:
        return posixpath.join(self._root, f"{unit.day or unit.split}-{unit.key[:DIGEST_DIGITS]}")

    def _of(self, unit: Unit, stored: StoredDay) -> tuple[DayExamples, list[FileCounts]]:
        # The data folder may have moved, and a day may have been in another split.
        counts = [
            count.model_copy(
                update={"split": unit.split, "path": posixpath.join(self._request.data_root or ".", count.path)}
            )
            for count in stored.counts
        ]
        folder = posixpath.join(self._folder(unit), stored.attempt)
        rows = sum(count.rows_written for count in counts)
        return DayExamples(day=unit.day, folder=folder, names=stored.names, rows=rows), counts
