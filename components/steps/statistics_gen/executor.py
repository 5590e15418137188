"""Collects the statistics of each day once, and merges those of each split."""

import functools
import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from google.protobuf import text_format
from pydantic import BaseModel, ConfigDict
from tensorflow_metadata.proto.v0 import schema_pb2
from tfx import types
from tfx.components.statistics_gen.executor import DEFAULT_FILE_NAME
from tfx.dsl.io import fileio
from tfx.types import artifact_utils
from tfx.utils import io_utils

from sangam.components.beam.execution import BeamExecutor
from sangam.components.examples.by_day import ByDay
from sangam.components.examples.listing import read_listing
from sangam.components.examples.reading import large_batches
from sangam.components.steps.statistics_gen.column import SCHEMA, Column
from sangam.components.steps.statistics_gen.proto import to_proto

_STEP = "statistics"
_TYPES = {schema_pb2.INT: "int", schema_pb2.FLOAT: "float", schema_pb2.BYTES: "string"}


class Options(BaseModel):
    """Resolution of the quantiles.

    Attributes:
        num_quantiles_histogram_buckets: number of buckets with equally many values.
        epsilon: largest error of a rank, as a share.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    num_quantiles_histogram_buckets: int
    epsilon: float


class Executor(BeamExecutor):
    """Writes the statistics of every split in the form of TFX's StatisticsGen."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """Writes the ExampleStatistics artifact."""
        examples = artifact_utils.get_single_instance(input_dict["examples"])
        statistics = artifact_utils.get_single_instance(output_dict["statistics"])
        schema = io_utils.SchemaReader().read(
            io_utils.get_only_uri_in_dir(artifact_utils.get_single_uri(input_dict["schema"]))
        )
        options = Options.model_validate_json(exec_properties["options"])
        collect = Collect(text_format.MessageToString(schema), options.epsilon)
        by_day = ByDay(_STEP, (exec_properties["code"], collect.schema, str(options.epsilon)), collect)
        listing = read_listing(examples.uri)
        by_day.complete(listing.days(), self._make_beam_pipeline)
        statistics.split_names = examples.split_names
        for split in artifact_utils.decode_split_names(examples.split_names):
            days = listing.splits[split]
            columns = merged(by_day.results(days), collect)
            rows = sum(day.rows for day in days)
            proto = to_proto(columns, rows, options.num_quantiles_histogram_buckets)
            folder = artifact_utils.get_split_uri([statistics], split)
            fileio.makedirs(folder)
            with fileio.open(posixpath.join(folder, DEFAULT_FILE_NAME), "wb") as file:
                file.write(proto.SerializeToString())


@dataclass(frozen=True)
class Collect:
    """Computes the statistics of the columns of files of examples, as an Arrow file.

    Attributes:
        schema: schema of the examples, as text.
        error: error of quantiles.
    """

    schema: str
    error: float

    def __call__(self, files: Sequence[str]) -> bytes:
        """Reads the files."""
        columns = self.columns()
        for batch in large_batches(files):
            for column in columns:
                column.add(batch.column(batch.schema.get_field_index(column.name)))
        return _written(columns)

    def columns(self) -> list[Column]:
        """Returns the columns of the schema, without rows."""
        return [
            Column(feature.name, _TYPES[feature.type], is_id=feature.int_domain.is_categorical, error=self.error)
            for feature in _parsed(self.schema).feature
        ]


@functools.lru_cache(maxsize=1)
def _parsed(schema: str) -> schema_pb2.Schema:
    return text_format.Parse(schema, schema_pb2.Schema())


def merged(kept: Iterable[pa.Table], collect: Collect) -> list[Column]:
    """Returns the columns of all parts, merged in their order."""
    columns = collect.columns()
    for table in kept:
        for number, column in enumerate(columns):
            column.merge({name: _plain(table.column(name)[number]) for name in SCHEMA.names})
    return columns


def _plain(value: pa.Scalar) -> Any:
    """Returns a stored value; numbers of a list as an array."""
    return value.values.to_numpy() if pa.types.is_list(value.type) and value.is_valid else value.as_py()


def _written(columns: Sequence[Column]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, SCHEMA, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(pa.Table.from_pylist([column.row() for column in columns], SCHEMA))
    return bytes(sink.getvalue())
