"""Maps raw examples with a graph that is there already."""

import os
from collections.abc import Iterable, Mapping
from typing import Any

import apache_beam as beam
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam
from tfx_bsl.coders.example_coder import RecordBatchToExamplesEncoder
from tfx_bsl.tfxio.tf_example_record import TFExampleRecord

_FILE_PREFIX = "transformed_examples"
TEMPORARY = ".temp_path"
"""Below the graph, for Beam; to be removed when the pipeline has run."""


def transform_with(graph: str, schema: Any, splits: Mapping[str, tuple[str, str]], pipeline: beam.Pipeline) -> None:
    """Adds to a pipeline what reads, maps and writes every split.

    Args:
        graph: output folder of TensorFlow Transform.
        schema: TFMD's, of the raw examples.
        splits: by name: the folder of the raw examples, and that of the transformed ones.
        pipeline: not run yet.
    """
    transformed_schema = tft.TFTransformOutput(graph).transformed_metadata.schema
    with tft_beam.Context(temp_dir=os.path.join(graph, TEMPORARY), use_deep_copy_optimization=True):
        transform_fn = pipeline | "ReadGraph" >> tft_beam.ReadTransformFn(graph)
        for split, (raw, transformed) in splits.items():
            source = TFExampleRecord(os.path.join(raw, "*"), schema=schema, telemetry_descriptors=["Transform"])
            batches = pipeline | f"Read[{split}]" >> source.BeamSource()
            mapped, _ = (
                (batches, source.TensorAdapterConfig()),
                transform_fn,
            ) | f"Transform[{split}]" >> tft_beam.TransformDataset(output_record_batches=True)
            _ = (
                mapped
                | f"Encode[{split}]" >> beam.ParDo(_Encode(transformed_schema))
                | f"Write[{split}]"
                >> beam.io.WriteToTFRecord(os.path.join(transformed, _FILE_PREFIX), file_name_suffix=".gz")
            )


class _Encode(beam.DoFn):
    """Turns a record batch and the values passed through it, of which there are none, into serialized tf.Examples."""

    def __init__(self, schema: Any):
        self._schema = schema.SerializeToString()
        self._encoder: Any = None

    def setup(self) -> None:
        from tensorflow_metadata.proto.v0 import schema_pb2

        self._encoder = RecordBatchToExamplesEncoder(schema_pb2.Schema.FromString(self._schema))

    def process(self, element: tuple[Any, Any]) -> Iterable[bytes]:
        batch, _ = element
        yield from self._encoder.encode(batch)
