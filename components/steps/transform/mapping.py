"""Transforms raw examples with an existing graph: each file to one of the same name."""

import contextlib
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import tensorflow as tf
import tensorflow_transform as tft
from tfx.dsl.io import fileio

from sangam.components.examples.blocks import encode
from sangam.components.examples.listing import DayExamples, Listing
from sangam.components.examples.reading import large_batches
from sangam.components.steps.transform.history.joining import JoinHistory, columns_of
from sangam.components.steps.transform.history.keys import KeysFn
from sangam.components.steps.transform.history.run import RunHistory
from sangam.components.steps.transform.tensors import rows_of, tensors_of
from sangam.schemas.contracts.example_files import BLOCK_ROWS
from sangam.schemas.host.wildcards import without_wildcards

_ROWS_TOGETHER = 16_384
"""Most rows of files that are mapped at once: the graph costs about as much for one small day as for ten."""
_BYTES_TOGETHER, _FILES_TOGETHER = 128 * 2**20, 64
"""Most bytes of these rows; most files, which are written at the same time."""


def map_examples(
    graph: str,
    listing: Listing,
    folders: Mapping[str, str],
    pipeline: beam.Pipeline,
    history: RunHistory | None = None,
) -> Listing:
    """Adds the transformation of every split to a pipeline, and returns the list of the files that it will write.

    Training may need days and rows in order, which Beam's own output does not keep.

    Args:
        graph: output folder of TensorFlow Transform.
        listing: listing of the raw examples.
        folders: folders of the transformed examples, by split.
        pipeline: pipeline that has not run.
        history: history of the days, if the spec has history features.
    """
    files, splits = [], {}
    for split, folder in folders.items():
        fileio.makedirs(folder)
        days = listing.splits[split]
        files += [
            ToMap(
                path,
                posixpath.join(folder, posixpath.basename(path)),
                day.rows,
                history.folder(split, day) if history else "",
            )
            for day in days
            for path in day.files
        ]
        splits[split] = tuple(DayExamples(day=day.day, folder=folder, names=day.names, rows=day.rows) for day in days)
    _ = (
        pipeline
        | "Files" >> beam.Create(list(_together(files)), reshuffle=False)
        | "Spread" >> beam.Reshuffle()
        | "Map" >> beam.ParDo(MapFiles(graph, history.keys_fn if history else None))
    )
    return Listing(splits=splits)


class ToMap(NamedTuple):
    """A file to transform.

    Attributes:
        raw: path of its examples.
        transformed: path to write.
        rows: most rows that it may have: those of its day.
        history: folder of the tables of the days before; empty if no feature needs them.
    """

    raw: str
    transformed: str
    rows: int
    history: str = ""


def _together(files: Sequence[ToMap]) -> Iterator[tuple[ToMap, ...]]:
    """Yields files that one worker maps: several small ones, or a large one."""
    group: list[ToMap] = []
    for file in files:
        if len(group) == _FILES_TOGETHER or sum(each.rows for each in [*group, file]) > _ROWS_TOGETHER:
            yield from [tuple(group)] if group else []
            group = []
        group.append(file)
    if group:
        yield tuple(group)


Batch = tuple[ToMap, pa.RecordBatch]
"""Rows, and the file that they are of."""


def _batches_together(read: Iterator[Batch]) -> Iterator[list[Batch]]:
    """Yields batches that are mapped at once: of the same types, and not too large together."""
    group: list[Batch] = []
    for file, batch in read:
        every = [each for _, each in [*group, (file, batch)]]
        is_large = sum(each.num_rows for each in every) > _ROWS_TOGETHER
        is_large |= sum(each.nbytes for each in every) > _BYTES_TOGETHER
        if group and (is_large or batch.schema != every[0].schema):
            yield group
            group = []
        group.append((file, batch))
    if group:
        yield group


class MapFiles(beam.DoFn):
    """Writes the transformed examples of files, each to one of its own."""

    def __init__(self, graph: str, keys_fn: KeysFn | None = None):
        """Takes the graph's folder, and the function that converts columns to the tables' keys."""
        self._graph, self._keys_fn = graph, keys_fn

    def setup(self) -> None:
        with without_wildcards(posixpath.join(self._graph, tft.TFTransformOutput.TRANSFORM_FN_DIR)) as literal:
            restored = tf.saved_model.load(literal).transform_fn
        # Given its columns by name. TensorFlow Transform's own layer gives them one by one: TensorFlow then first
        # writes an error with all their values, 75 ms for 1,000 rows, and catches it.
        [self._transform] = getattr(restored, "concrete_functions", [restored])
        [specs], _ = self._transform.structured_input_signature
        self._columns = list(specs)

    def process(self, files: tuple[ToMap, ...]) -> None:
        """Reads the files."""
        read = ((file, batch) for file in files for batch in large_batches([file.raw]))
        with contextlib.ExitStack() as opened:
            writers = {file: opened.enter_context(tf.io.TFRecordWriter(file.transformed)) for file in files}
            for together in _batches_together(read):
                rows, start = self._mapped(together), 0
                for file, batch in together:
                    of_batch = rows.slice(start, batch.num_rows)
                    start += batch.num_rows
                    for block in range(0, batch.num_rows, BLOCK_ROWS):
                        writers[file].write(encode(of_batch.slice(block, BLOCK_ROWS)))

    def _mapped(self, together: Sequence[Batch]) -> pa.RecordBatch:
        """Returns the transformed rows of all batches, one after another."""
        before = [self._before(file, batch) for file, batch in together]
        joined = columns_of({name: np.concatenate([values[name] for values in before]) for name in before[0]})
        [whole] = pa.Table.from_batches([batch for _, batch in together]).combine_chunks().to_batches()
        of_logs = tensors_of(whole, [name for name in self._columns if name not in joined])
        made: dict[str, Any] = self._transform(of_logs | joined)
        return rows_of(made)

    def _before(self, file: ToMap, batch: pa.RecordBatch) -> dict[str, Any]:
        """Returns the history of a batch of a file, by column; none if no feature needs any."""
        return JoinHistory(file.history, self._keys_fn).values_of(batch) if file.history and self._keys_fn else {}
