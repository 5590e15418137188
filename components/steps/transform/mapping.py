"""Transforms raw examples with an existing graph: each file to one of the same name, block by block."""

import posixpath
from collections.abc import Mapping
from typing import Any

import apache_beam as beam
import tensorflow as tf
import tensorflow_transform as tft
from tfx.dsl.io import fileio

from components.examples.blocks import encode
from components.examples.by_day import groups_of_blocks, joined
from components.examples.listing import DayExamples, Listing
from components.steps.transform.tensors import rows_of, tensors_of


def map_examples(graph: str, listing: Listing, folders: Mapping[str, str], pipeline: beam.Pipeline) -> Listing:
    """Adds the transformation of every split to a pipeline, and returns the list of what it will write.

    Training may need days and rows in order, which Beam's own output does not keep.

    Args:
        graph: output folder of TensorFlow Transform.
        listing: of the raw examples.
        folders: of the transformed examples, by split.
        pipeline: not run yet.
    """
    files, splits = [], {}
    for split, folder in folders.items():
        fileio.makedirs(folder)
        days = listing.splits[split]
        files += [(path, posixpath.join(folder, posixpath.basename(path))) for day in days for path in day.files]
        splits[split] = tuple(DayExamples(day=day.day, folder=folder, names=day.names, rows=day.rows) for day in days)
    _ = (
        pipeline
        | "Files" >> beam.Create(files, reshuffle=False)
        | "Spread" >> beam.Reshuffle()
        | "Map" >> beam.ParDo(MapFile(graph))
    )
    return Listing(splits=splits)


class MapFile(beam.DoFn):
    """Writes the transformed examples of one file."""

    def __init__(self, graph: str):
        self._graph = graph

    def setup(self) -> None:
        output = tft.TFTransformOutput(self._graph)
        self._columns = list(output.raw_feature_spec())
        self._transform = output.transform_features_layer()

    def process(self, element: tuple[str, str]) -> None:
        raw, transformed = element
        with tf.io.TFRecordWriter(transformed) as writer:
            # The graph costs as much for one block as for many.
            for blocks in groups_of_blocks([raw]):
                made: dict[str, Any] = self._transform(tensors_of(joined(blocks), self._columns))
                rows, start = rows_of(made), 0
                for block in blocks:
                    writer.write(encode(rows.slice(start, block.num_rows)))
                    start += block.num_rows
