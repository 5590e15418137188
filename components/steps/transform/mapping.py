"""Transforms raw examples with an existing graph: each file to one of the same name, in the same order."""

import posixpath
from collections.abc import Mapping
from typing import Any

import apache_beam as beam
import tensorflow as tf
import tensorflow_transform as tft
from tfx.dsl.io import fileio
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder, RecordBatchToExamplesEncoder
from tfx_bsl.tfxio.tensor_adapter import TensorAdapter
from tfx_bsl.tfxio.tensor_to_arrow import TensorsToRecordBatchConverter
from tfx_bsl.tfxio.tf_example_record import TFExampleRecord

_BATCH_ROWS = 4096


def map_examples(graph: str, schema: Any, splits: Mapping[str, tuple[str, str]], pipeline: beam.Pipeline) -> None:
    """Adds the transformation of every split to a pipeline.

    Training may need days and rows in order, which Beam's own output does not keep.

    Args:
        graph: output folder of TensorFlow Transform.
        schema: TFMD schema of the raw examples.
        splits: folders of the raw and of the transformed examples, by split.
        pipeline: not run yet.
    """
    files = []
    for raw, transformed in splits.values():
        fileio.makedirs(transformed)
        names = sorted(name for name in fileio.listdir(raw) if not fileio.isdir(posixpath.join(raw, name)))
        files += [(posixpath.join(raw, name), posixpath.join(transformed, name)) for name in names]
    _ = (
        pipeline
        | "Files" >> beam.Create(files, reshuffle=False)
        | "Spread" >> beam.Reshuffle()
        | "Map" >> beam.ParDo(_MapFile(graph, schema))
    )


class _MapFile(beam.DoFn):
    """Writes the transformed examples of one file."""

    def __init__(self, graph: str, schema: Any):
        self._graph, self._schema = graph, schema.SerializeToString()

    def setup(self) -> None:
        from tensorflow_metadata.proto.v0 import schema_pb2

        output = tft.TFTransformOutput(self._graph)
        schema = schema_pb2.Schema.FromString(self._schema)
        self._adapter = TensorAdapter(TFExampleRecord("unused", schema=schema).TensorAdapterConfig())
        self._decode = ExamplesToRecordBatchDecoder(self._schema).DecodeBatch
        self._transform = output.transform_features_layer()
        self._encoder = RecordBatchToExamplesEncoder(output.transformed_metadata.schema)
        self._converter: Any = None

    def process(self, element: tuple[str, str]) -> None:
        raw, transformed = element
        batches = tf.data.TFRecordDataset(raw, "GZIP").batch(_BATCH_ROWS)
        with tf.io.TFRecordWriter(transformed, "GZIP") as writer:
            for batch in batches.as_numpy_iterator():
                for example in self._mapped(batch.tolist()):
                    writer.write(example)

    def _mapped(self, examples: list[bytes]) -> list[bytes]:
        """Returns the transformed examples, in the order of the raw ones."""
        made = self._transform(dict(self._adapter.ToBatchTensors(self._decode(examples))))
        if self._converter is None:
            self._converter = TensorsToRecordBatchConverter({name: _any_rows(each) for name, each in made.items()})
        return list(self._encoder.encode(self._converter.convert(made)))


def _any_rows(tensor: Any) -> Any:
    """Returns the TensorSpec of a tensor for any number of rows."""
    if isinstance(tensor, tf.SparseTensor):
        return tf.SparseTensorSpec([None, None], tensor.dtype)
    return tf.TensorSpec([None, *tensor.shape.as_list()[1:]], tensor.dtype)
