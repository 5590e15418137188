"""The rows and columns of a spec as trees read them: numbers, and codes of categories; NaN where missing."""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bench.lagged import before, rates
from bench.quality.sets.days import DAY_S, codes
from sangam.components.arrow_files import open_parquet
from sangam.components.logs.files.local_files import LocalStorage
from sangam.components.logs.files.resolve import DataFile, resolve
from sangam.schemas.parts.roles import Feature
from sangam.schemas.spec import Spec
from sangam.schemas.spec.data import EVAL, TRAIN, VALIDATION, DayLogs
from sangam.schemas.spec.features import (
    AgeFeature,
    CountFeature,
    CrossFeature,
    IdFeature,
    IdsFeature,
    MatchFeature,
    NumericFeature,
    RateFeature,
    SequenceFeature,
    TimeFeature,
)

_PRIOR_ROWS = 20.0
_VALIDATION_FRACTION = 0.1
Columns = dict[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Rows:
    """All rows of a run.

    Attributes:
        table: their columns.
        days: day of each row, a number; all 0 for splits.
        parts: `train`, `validation` or `eval` of each row.
    """

    table: pa.Table
    days: NDArray[np.int64]
    parts: NDArray[np.str_]


def rows_of(spec: Spec, date: str, data: Path) -> Rows:
    """Reads the rows of a run; without validation days or files, the newest train days are, or a tenth of the split."""
    files = resolve(spec.data, date, str(data), LocalStorage()).of_log
    tables = [open_parquet(Path(file.path)).read() for file in files]
    counts = [table.num_rows for table in tables]
    days = np.repeat([_number(file) for file in files], counts)
    parts = np.repeat(np.array([file.split for file in files], dtype="U16"), counts)
    if not (parts == VALIDATION).any():
        parts[_validation(spec, days, parts)] = VALIDATION
    return Rows(pa.concat_tables(tables), days, parts)


def _number(file: DataFile) -> int:
    return datetime.date.fromisoformat(file.day).toordinal() if file.day else 0


def _validation(spec: Spec, days: NDArray[np.int64], parts: NDArray[np.str_]) -> NDArray[np.bool_]:
    is_train = parts == TRAIN
    if isinstance(spec.data, DayLogs):
        return is_train & (days > days[is_train].max() - spec.data.eval_days)
    return is_train & (np.random.default_rng(0).random(len(parts)) < _VALIDATION_FRACTION)


def columns_of(spec: Spec, table: pa.Table) -> tuple[Columns, frozenset[str]]:
    """Returns the columns of a spec's features, and which are categories. Of a list, trees get the number of values."""
    found: Columns = {}
    categories = set()
    for name, feature in spec.features.items():
        match feature:
            case RateFeature() | CountFeature():
                continue  # They are the lagged rates of a row of their own.
            case CrossFeature():
                continue  # Trees combine its columns themselves.
            case IdFeature():
                column = table[spec.column_of(name)]
                found[name] = np.where(_is_null(column), np.nan, codes(column))
                categories.add(name)
            case _:
                found[name] = _number_of(spec, name, feature, table)
    return found, frozenset(categories)


def _number_of(spec: Spec, name: str, feature: Feature, table: pa.Table) -> NDArray[np.float64]:
    match feature:
        case NumericFeature():
            return _floats(table[spec.column_of(name)])
        case TimeFeature():
            seconds = _floats(table[spec.column_of(name)]) + 60 * feature.utc_offset_minutes
            return np.floor(seconds % DAY_S / 3600) if feature.part == "hour" else (seconds // DAY_S + 3) % 7
        case AgeFeature():
            return _floats(table[feature.at]) - _floats(table[feature.since])
        case IdsFeature() | SequenceFeature():
            return _floats(pc.fill_null(pc.list_value_length(table[spec.column_of(name)]), 0))
        case MatchFeature():
            return _matches(table[feature.column].combine_chunks(), table[feature.among].combine_chunks())
        case _:
            raise ValueError(f"features.{name}: trees do not read it (got kind {type(feature).__name__})")


def _is_null(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    return pc.is_null(column).to_numpy().astype(bool)


def _floats(column: pa.ChunkedArray) -> NDArray[np.float64]:
    return pc.cast(column, pa.float64()).to_numpy().astype(np.float64)


def _matches(values: pa.Array, lists: pa.Array) -> NDArray[np.float64]:
    """Returns 1 where a row's value is in its list."""
    row = pc.list_parent_indices(lists)
    is_equal = pc.fill_null(pc.equal(lists.flatten(), values.take(row)), False).to_numpy(zero_copy_only=False)
    return (np.bincount(row.to_numpy(), is_equal, len(values)) > 0).astype(np.float64)


def table_of(spec: Spec, rows: Rows, tasks: Sequence[str], *, is_lagged: bool) -> dict[str, NDArray]:
    """Returns what `trees` reads: x, labels, which part a row is in (0, 1, 2), and which columns are categories."""
    columns, categories = columns_of(spec, rows.table)
    labels = np.stack([_floats(rows.table[task]) for task in tasks], 1)
    places = [place for place, name in enumerate(columns) if name in categories]
    if is_lagged:
        columns |= dict(_lagged({name: columns[name] for name in sorted(categories)}, labels, rows))
    return {
        "x": np.stack([*columns.values()], 1).astype(np.float32),
        "labels": labels,
        "parts": np.select([rows.parts == TRAIN, rows.parts == VALIDATION], [0, 1], 2),
        "categories": np.array(places, np.int64),
    }


def _lagged(
    ids: Mapping[str, NDArray[np.float64]], labels: NDArray[np.float64], rows: Rows
) -> Iterator[tuple[str, NDArray]]:
    """Yields for each id how often earlier days have it, and its mean labels there, smoothed towards train's mean."""
    means = labels[rows.parts != EVAL].mean(0)
    for name, codes_N in ids.items():
        known_N = np.nan_to_num(codes_N, nan=-1).astype(np.int64)
        yield f"{name} before", before(known_N, rows.days, np.ones(len(known_N)))
        for task, mean in enumerate(means):
            yield f"{name} rate {task}", rates(known_N, rows.days, labels[:, task], mean, _PRIOR_ROWS)
