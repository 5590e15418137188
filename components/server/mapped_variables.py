"""Restores a model's variables, those of files of their own as the files' pages: no second copy, and shared.

Only for exports of the form `stock`, whose state is variables alone.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.core.protobuf import meta_graph_pb2, trackable_object_graph_pb2

_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"


def restore_mapped(
    session: tf.compat.v1.Session, meta_graph: meta_graph_pb2.MetaGraphDef, folder: str, files: Mapping[str, str]
) -> None:
    """Gives each variable of a session's model its value.

    Args:
        session: session with the model's graph.
        meta_graph: the SavedModel's.
        folder: folder of the SavedModel.
        files: file of each mapped variable, below the folder, by the variable's key.

    Raises:
        ValueError: if variables and files do not fit.
    """
    reader = tf.train.load_checkpoint(f"{folder}/variables/variables")
    keys = _keys(meta_graph, reader.get_tensor(_OBJECTS))
    assigned, values = [], {}
    with session.graph.as_default():
        for name, key in keys.items():
            dtype, shape = reader.get_variable_to_dtype_map()[key], reader.get_variable_to_shape_map()[key]
            value = tf.compat.v1.placeholder(dtype)
            values[value] = _mapped(Path(folder, files[key]), dtype, shape) if key in files else reader.get_tensor(key)
            variable = session.graph.get_tensor_by_name(f"{name}:0")
            # The variable's value is the array itself.
            assigned.append(tf.raw_ops.AssignVariableOp(resource=variable, value=value))
    if missing := sorted(files.keys() - keys.values()):
        raise ValueError(f"own_files: no such variables (got {', '.join(missing)})")
    session.run(assigned, values)


def _keys(meta_graph: meta_graph_pb2.MetaGraphDef, objects: bytes) -> dict[str, str]:
    """Returns the key in the checkpoint of each variable of the graph, by its name there."""
    # Both lists of objects are in the same order.
    saved = trackable_object_graph_pb2.TrackableObjectGraph.FromString(objects).nodes
    found = {
        node.variable.name: saved[number].attributes[0].checkpoint_key
        for number, node in enumerate(meta_graph.object_graph_def.nodes)
        if node.WhichOneof("kind") == "variable"
    }
    names = sorted(node.name for node in meta_graph.graph_def.node if node.op == "VarHandleOp")
    if names != sorted(found):
        raise ValueError(f"variables: names are not unique (got {', '.join(names)} for {', '.join(sorted(found))})")
    return found


def _mapped(file: Path, dtype: tf.DType, shape: list[int]) -> NDArray[Any]:
    size, needed = file.stat().st_size, math.prod(shape) * dtype.size
    if size != needed:
        raise ValueError(f"{file}: is not one variable (got {size} bytes; {needed} are needed)")
    return np.memmap(file, dtype.as_numpy_dtype, "r", shape=tuple(shape))
