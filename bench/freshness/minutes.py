"""Days of logs as segments of one minute each, as the joiner would write them of logs without sources."""

import datetime
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf
from numpy.typing import NDArray

from sangam.components.examples.blocks import encode
from sangam.components.logs.readers import formats
from sangam.components.logs.rows.conversion import convert
from sangam.schemas.contracts import segments
from sangam.schemas.derived.columns import columns
from sangam.schemas.spec import Spec
from sangam.schemas.spec.data import DayLogs

MINUTE_S = 60


class Minutes(NamedTuple):
    """Segments and labels.

    Attributes:
        first_events: first second of each segment; segments are numbered from 1.
        labels: labels of all rows in their order, by task.
    """

    first_events: Sequence[int]
    labels: Mapping[str, NDArray[Any]]


def write_minutes(spec: Spec, data: Path, days: Sequence[datetime.date], folder: Path) -> Minutes:
    """Seals a segment for every minute that has rows."""
    first_events: list[int] = []
    labels: dict[str, list[NDArray[Any]]] = {task: [] for task in spec.tasks}
    for day in days:
        rows = _rows(spec, data, day)
        order = np.argsort(_values(rows, str(spec.event_time)), kind="stable")
        rows = rows.take(pa.array(order))
        times = _values(rows, str(spec.event_time))
        bounds = [0, *(np.flatnonzero(np.diff(times // MINUTE_S)) + 1).tolist(), len(times)]
        for start, end in pairwise(bounds):
            first_events.append(int(times[start]))
            _seal(folder, len(first_events), rows.slice(start, end - start), int(times[start]), int(times[end - 1]))
        for task, parts in labels.items():
            parts.append(_values(rows, spec.label_of(task)))
    return Minutes(first_events, {task: np.concatenate(parts) for task, parts in labels.items()})


def _values(rows: pa.Table, column: str) -> NDArray[Any]:
    """Returns a column of one value in each row."""
    values = pc.list_flatten(rows[column]).to_numpy()
    assert len(values) == rows.num_rows, f"{column}: a row lacks it"
    return np.asarray(values)


def _rows(spec: Spec, data: Path, day: datetime.date) -> pa.Table:
    assert isinstance(spec.data, DayLogs)
    read, batches = columns(spec), []
    for path in map(str, sorted(data.glob(day.strftime(_pattern(spec.data.pattern))))):
        with Path(path).open("rb") as opened:
            batches += [convert(rows.batch, read, path).batch for rows in formats.read(spec.data, opened, path, read)]
    return pa.Table.from_batches(batches)


def _pattern(pattern: str) -> str:
    return pattern.replace("{YYYY}", "%Y").replace("{MM}", "%m").replace("{DD}", "%d")


def _seal(folder: Path, number: int, rows: pa.Table, first_event: int, last_event: int) -> None:
    [block] = rows.combine_chunks().to_batches()
    with tf.io.TFRecordWriter(str(segments.begin(folder, number) / segments.EXAMPLES_FILE)) as writer:
        writer.write(encode(block))
    segments.seal(
        folder,
        number,
        rows=rows.num_rows,
        first_event=first_event,
        last_event=last_event,
        positions={},
        counts={},
    )
