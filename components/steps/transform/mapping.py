"""Transforms raw examples with an existing graph: each file to one of the same name."""

import posixpath
from collections.abc import Mapping
from typing import Any, NamedTuple

import apache_beam as beam
import tensorflow as tf
import tensorflow_transform as tft
from tfx.dsl.io import fileio

from sangam.components.examples.blocks import encode
from sangam.components.examples.listing import DayExamples, Listing
from sangam.components.examples.reading import large_batches
from sangam.components.steps.transform.history.counts import KeysFn
from sangam.components.steps.transform.history.joining import JoinHistory
from sangam.components.steps.transform.history.run import RunHistory
from sangam.components.steps.transform.tensors import rows_of, tensors_of
from sangam.schemas.contracts.example_files import BLOCK_ROWS
from sangam.schemas.host.wildcards import without_wildcards


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
            ToMap(path, posixpath.join(folder, posixpath.basename(path)), history.folder(split, day) if history else "")
            for day in days
            for path in day.files
        ]
        splits[split] = tuple(DayExamples(day=day.day, folder=folder, names=day.names, rows=day.rows) for day in days)
    _ = (
        pipeline
        | "Files" >> beam.Create(files, reshuffle=False)
        | "Spread" >> beam.Reshuffle()
        | "Map" >> beam.ParDo(MapFile(graph, history.keys_fn if history else None))
    )
    return Listing(splits=splits)


class ToMap(NamedTuple):
    """A file to transform.

    Attributes:
        raw: path of its examples.
        transformed: path to write.
        history: folder of the tables of the days before; empty if no feature needs them.
    """

    raw: str
    transformed: str
    history: str = ""


class MapFile(beam.DoFn):
    """Writes the transformed examples of one file."""

    def __init__(self, graph: str, keys_fn: KeysFn | None = None):
        """Takes the graph's folder, and the function that converts columns to the tables' keys."""
        self._graph, self._keys_fn = graph, keys_fn

    def setup(self) -> None:
        with without_wildcards(posixpath.join(self._graph, tft.TFTransformOutput.TRANSFORM_FN_DIR)) as literal:
            restored = tf.saved_model.load(literal).transform_fn
        # Given its columns by name. TensorFlow Transform's own layer gives them one by one: TensorFlow then first writes
        # an error with all their values, 75 ms for 1,000 rows, and catches it.
        [self._transform] = getattr(restored, "concrete_functions", [restored])
        [specs], _ = self._transform.structured_input_signature
        self._columns = list(specs)

    def process(self, element: ToMap) -> None:
        history = JoinHistory(element.history, self._keys_fn) if element.history and self._keys_fn else None
        of_logs = [name for name in self._columns if history is None or name not in history.columns]
        with tf.io.TFRecordWriter(element.transformed) as writer:
            # The graph costs as much for one block as for many.
            for batch in large_batches([element.raw]):
                before = history.columns_of(batch) if history else {}
                made: dict[str, Any] = self._transform(tensors_of(batch, of_logs) | before)
                rows = rows_of(made)
                for start in range(0, rows.num_rows, BLOCK_ROWS):
                    writer.write(encode(rows.slice(start, BLOCK_ROWS)))
