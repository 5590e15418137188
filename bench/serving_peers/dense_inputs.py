"""The input of the dense layers, as a SavedModel tells it: what looking up, pooling and encoding give."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import saved_model_pb2

from bench.serving_peers.days import Arrays
from sangam.schemas.contracts.export import SERVE, ServedColumn
from sangam.schemas.derived.rank_inputs import LENGTH, MISSING

DENSE_INPUTS = "dense_inputs"
"""Signature of the model written: `serving_default` with one output alone, `x` [n, inputs]."""
_FILE = "saved_model.pb"


def examples(arrays: Arrays, columns: Mapping[str, ServedColumn]) -> NDArray[np.object_]:
    """Returns a request as serialized tf.Examples, one for each candidate."""
    count = max(map(len, arrays.values()))
    rows = {name: array if len(array) == count else np.repeat(array, count, 0) for name, array in arrays.items()}
    serialized = []
    for row in range(count):
        example = tf.train.Example()
        for name, column in columns.items():
            values = rows[column.input][row : row + 1]
            if column.is_list:
                values = values[0, : rows[f"{column.input}{LENGTH}"][row]]
            feature = example.features.feature[name]
            match column.type:
                case "string":
                    feature.bytes_list.value.extend(value for value in values if value)
                case "int":
                    feature.int64_list.value.extend(values[values != MISSING["int"]])
                case "float":
                    feature.float_list.value.extend(values[np.isfinite(values)])
        serialized.append(example.SerializeToString())
    return np.array(serialized, np.object_)


def write_with_inputs(model: Path, target: Path, width: int) -> None:
    """Writes the graph of a model with one more output, for the same variables: links to its other files."""
    target.mkdir()
    for each in model.iterdir():
        if each.name != _FILE:
            (target / each.name).symlink_to(each.absolute())
    document = saved_model_pb2.SavedModel.FromString((model / _FILE).read_bytes())
    graph = document.meta_graphs[0]
    functions = {function.signature.name: function for function in graph.graph_def.library.function}
    served = graph.signature_def[SERVE]
    output = next(iter(served.outputs.values())).name.split(":")[0]
    [node] = [node for node in graph.graph_def.node if node.name == output]
    number = _tell(node, functions, width)
    added = graph.signature_def[DENSE_INPUTS]
    added.CopyFrom(served)
    added.outputs.clear()
    added.outputs["x"].name, added.outputs["x"].dtype = f"{node.name}:{number}", types_pb2.DT_FLOAT
    (target / _FILE).write_bytes(document.SerializeToString())


def _tell(call: Any, functions: dict[str, Any], width: int) -> int:
    """Makes a call, and those in it, return the input of the dense layers too; returns the number of the output."""
    function = functions[call.attr["f"].func.name]
    if found := _concatenation(function, width):
        source = f"{found}:output:0"
    else:
        [inner] = [node for node in function.node_def if "f" in node.attr and node.attr["f"].func.name in functions]
        source = f"{inner.name}:output:{_tell(inner, functions, width)}"
    function.signature.output_arg.add(name="x", type=types_pb2.DT_FLOAT)
    function.ret["x"] = source
    call.attr["Tout"].list.type.append(types_pb2.DT_FLOAT)
    call.attr.pop("_output_shapes", None)  # Reading an attribute that is not there adds an empty one.
    return len(function.signature.output_arg) - 1


def _concatenation(function: Any, width: int) -> str | None:
    """Returns the node whose result, as wide as the model's input, is multiplied; None: it is in no such function."""
    multiplied = {node.input[0] for node in function.node_def if node.op == "MatMul"}
    found = [
        node.name
        for node in function.node_def
        if node.op == "ConcatV2"
        and f"{node.name}:output:0" in multiplied
        and "_output_shapes" in node.attr
        and [dim.size for dim in node.attr["_output_shapes"].list.shape[0].dim] == [-1, width]
    ]
    return found[0] if len(found) == 1 else None
