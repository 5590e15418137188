"""Builds a TensorFlow Metadata schema from the spec's columns."""

from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from sangam.schemas.derived.columns import columns
from sangam.schemas.parts.columns import Column, ColumnType
from sangam.schemas.spec import Inputs

_TYPES: dict[ColumnType, int] = {"int": schema_pb2.INT, "float": schema_pb2.FLOAT, "string": schema_pb2.BYTES}


def tfmd_schema(inputs: Inputs) -> schema_pb2.Schema:
    """Returns the schema of the Examples that ingestion writes.

    Required columns are present in every example; scalars have one value, vectors their length, other lists any number;
    binary labels and masks are 0 or 1, weights and times at least 0. Integer ids are categorical, so that their
    statistics are those of strings. No feature has a shape, so that Transform reads all of them as SparseTensors: any
    of them may be missing in serving.
    """
    return schema_pb2.Schema(feature=[_feature(column) for column in columns(inputs)])


def schema_text(inputs: Inputs) -> str:
    """Returns the schema as the text of schema.pbtxt."""
    return str(text_format.MessageToString(tfmd_schema(inputs)))


def _feature(column: Column) -> schema_pb2.Feature:
    feature = schema_pb2.Feature(name=column.name, type=_TYPES[column.type])
    if column.is_required:
        feature.presence.min_fraction = 1.0
        feature.presence.min_count = 1
    if column.length is not None:
        feature.value_count.min = feature.value_count.max = column.length
    elif not column.is_list:
        feature.value_count.max = 1
        if column.is_required:
            feature.value_count.min = 1
    if column.is_binary:
        feature.int_domain.min = 0
        feature.int_domain.max = 1
    if column.is_not_negative and column.type == "float":
        feature.float_domain.min = 0
    if column.is_id and column.type == "int":
        feature.int_domain.is_categorical = True
    return feature
