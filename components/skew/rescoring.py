"""Scores logged candidates again with the version that scored them: from equal features come equal scores."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sangam.components.logs.readers.lists import lengths_of
from sangam.components.reports.skew import Example, ScoreSkew, TaskSkew
from sangam.components.request_log.settings import settings_of
from sangam.components.server.model import LoadedModel, NotServable
from sangam.components.server.request_error import RequestError
from sangam.components.skew.comparing import plain
from sangam.components.skew.sampling import CANDIDATE, sampled
from sangam.components.skew.values import numbers
from sangam.schemas.contracts.deltas import lineage_of
from sangam.schemas.contracts.export import DESCRIPTION_FILE, RANK, Description, ServedColumn, read_description
from sangam.schemas.contracts.request_log import DELTA, REQUEST_ID, SCORE, VERSION
from sangam.schemas.derived.days import Day
from sangam.schemas.derived.rank_inputs import LENGTH, MISSING
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column, ColumnType

_ROWS_AT_ONCE = 4096
_RELATIVE, _ABSOLUTE = 1e-4, 1e-5
"""Differences of scores that come from the order of sums, which depends on the number of rows."""
_EXAMPLES = 3
_ID_COLUMNS = (Column(VERSION, "int"), Column(DELTA, "int"))
_TYPES: Mapping[ColumnType, Any] = {"int": np.int64, "float": np.float32, "string": object}

Array = NDArray[Any]


@dataclass(frozen=True)
class _Scored:
    """Candidates of one version: their rows, and by task the logged scores and those given again."""

    rows: pa.Table
    scores: Mapping[str, tuple[Array, Array]]


def check_scores(log: str, versions: Path, day: Day, num_requests: int) -> ScoreSkew | None:
    """Scores a sample of a day's requests again.

    Args:
        log: folder of the log of requests, or its address.
        versions: folder of versions that was served.
        day: day of the requests, UTC.
        num_requests: size of the sample.

    Returns:
        The comparison, without tasks if no version can score again; None without requests.

    Raises:
        UserError: a version cannot be loaded.
    """
    told = sampled(log, day, num_requests, _ID_COLUMNS)
    if not told.num_rows:
        return None
    left_out: Counter[str] = Counter()
    scored = []
    for version in sorted(told[VERSION].unique().to_pylist()):
        of_version = told.filter(pc.equal(told[VERSION], version))
        reason = _why_not(versions / str(version))
        if reason:
            left_out[f"version {version} {reason}"] += of_version.num_rows
            continue
        described = _described(versions / str(version))
        read = [*_ID_COLUMNS, *_columns(described)]
        rows = sampled(log, day, num_requests, read)
        rows = rows.filter(pc.equal(rows[VERSION], version))
        as_pushed = rows.filter(_is_of_folder(rows[DELTA], versions / str(version)))
        if with_delta := rows.num_rows - as_pushed.num_rows:
            left_out["scored with a delta, which the version's folder does not have"] += with_delta
        rows = as_pushed
        if rows.num_rows:
            scored.append(_Scored(rows, _scores(versions / str(version), version, described, rows)))
    return ScoreSkew(tasks=list(_tasks(scored)), left_out=dict(left_out))


def _is_of_folder(deltas: pa.ChunkedArray, folder: Path) -> pa.ChunkedArray:
    """Returns which rows were scored with what the folder has: with no delta, or with the last one that it includes."""
    place = lineage_of(folder)
    return pc.fill_null(pc.equal(deltas, place.number), True) if place else pc.is_null(deltas)


def _why_not(folder: Path) -> str:
    if not (folder / DESCRIPTION_FILE).is_file():
        return "is not there"
    settings = settings_of(folder)
    return f"redacts {', '.join(sorted(settings.redact))}" if settings and settings.redact else ""


def _described(folder: Path) -> Description:
    file = folder / DESCRIPTION_FILE
    return read_description(str(file), file.read_bytes())


def _columns(described: Description) -> list[Column]:
    columns = [Column(name, each.type, is_list=each.is_list) for name, each in described.columns.items()]
    return [*columns, *(Column(SCORE + task, "float") for task in described.tasks)]


def _scores(folder: Path, version: int, described: Description, rows: pa.Table) -> dict[str, tuple[Array, Array]]:
    """Returns by task the logged scores, and those of the version."""
    again: dict[str, list[Array]] = {task: [] for task in described.tasks}
    try:
        model = LoadedModel(folder, version)
        rank = model.signature(RANK)
        for start in range(0, rows.num_rows, _ROWS_AT_ONCE):
            part = rows.slice(start, _ROWS_AT_ONCE)
            outputs = model.run(rank, inputs_of(part, described.columns))
            for task, arrays in again.items():
                arrays.append(np.broadcast_to(outputs[task].reshape(-1), part.num_rows))
    except (NotServable, RequestError) as error:
        raise UserError(f"{folder}: cannot score (got {error}); the folder that was served is needed") from error
    return {
        task: (numbers(rows[SCORE + task].combine_chunks()), np.concatenate(arrays)) for task, arrays in again.items()
    }


def inputs_of(rows: pa.Table, columns: Mapping[str, ServedColumn]) -> dict[str, Array]:
    """Returns the inputs of `rank` for rows, each list as long as the longest."""
    inputs: dict[str, Array] = {}
    for name, column in columns.items():
        values, kind = rows[name].combine_chunks(), _TYPES[column.type]
        if not column.is_list:
            inputs[column.input] = _filled(values, column.type).astype(kind)
            continue
        lengths = lengths_of(values)
        padded = np.full((len(values), max(int(lengths.max(initial=0)), 1)), b"" if kind is object else 0, kind)
        padded[np.arange(padded.shape[1]) < lengths[:, None]] = _filled(values.flatten(), column.type)
        inputs[column.input], inputs[column.input + LENGTH] = padded, lengths
    return inputs


def _filled(values: pa.Array, kind: ColumnType) -> Array:
    return np.asarray(values.fill_null(MISSING[kind]))


def _tasks(scored: Sequence[_Scored]) -> Iterator[TaskSkew]:
    for task in sorted({task for each in scored for task in each.scores}):
        compared = wrong = 0
        largest = 0.0
        examples: list[Example] = []
        for each in scored:
            if task not in each.scores:
                continue
            logged, again = each.scores[task]
            is_known = np.isfinite(logged)
            is_wrong = is_known & ~np.isclose(again, logged, rtol=_RELATIVE, atol=_ABSOLUTE)
            compared, wrong = compared + int(is_known.sum()), wrong + int(is_wrong.sum())
            largest = max(largest, float(np.abs(again - logged)[is_known].max(initial=0)))
            for row in np.flatnonzero(is_wrong)[: _EXAMPLES - len(examples)].tolist():
                keys = {key: plain(each.rows[key][row].as_py()) for key in (REQUEST_ID, CANDIDATE, VERSION)}
                examples.append(Example(keys=keys, served=float(logged[row]), offline=plain(float(again[row]))))
        yield TaskSkew(task=task, compared=compared, different=wrong, largest=largest, examples=examples)
