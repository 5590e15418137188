"""A SavedModel in a session of TensorFlow: no Python of TensorFlow's lies between the arrays and the graph."""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import config_pb2, meta_graph_pb2
from tensorflow.python.client import pywrap_tf_session
from tensorflow.python.framework import c_api_util
from tensorflow.python.saved_model import loader_impl

from sangam.components.server.mapped_variables import restore_mapped
from sangam.schemas.host.wildcards import without_wildcards

Arrays: TypeAlias = Mapping[str, Any]
"""Name to array of the type that the signature takes."""
_INIT = "__saved_model_init_op"
_IN_CALLERS_THREAD = -1


class ModelSession:
    """A loaded SavedModel. A call computes in its caller's thread, one operation after another.

    Rankers' operations are too small for a second thread to pay off, and callers run at the same time.

    Attributes:
        signature_defs: signatures by name.
    """

    def __init__(self, folder: Path, mapped: Mapping[str, str]):
        """Loads a SavedModel, and runs its initializers.

        Args:
            folder: folder of the SavedModel.
            mapped: files that are mapped into memory, below the folder, by the key of their variable.
        """
        graph = tf.Graph()
        self._session = tf.compat.v1.Session(graph=graph, config=_config())
        with without_wildcards(str(folder)) as path:
            loader = loader_impl.SavedModelLoader(path)
            meta_graph, saver = loader.saved_model.meta_graphs[0], loader.saved_model.meta_graphs[0].saver_def
            _import(graph, meta_graph.graph_def)
            if mapped:
                restore_mapped(self._session, meta_graph, path, mapped)
            elif saver.restore_op_name:
                restored = graph.get_operation_by_name(saver.restore_op_name)
                self._session.run(restored, {saver.filename_tensor_name: loader.variables_path})
            loader.run_init_ops(self._session, list(meta_graph.meta_info_def.tags))
        self.signature_defs: dict[str, meta_graph_pb2.SignatureDef] = {
            name: signature_def for name, signature_def in meta_graph.signature_def.items() if name != _INIT
        }

    def call(self, name: str) -> "SignatureCall":
        """Returns the function of a signature."""
        return SignatureCall(self._session, self.signature_defs[name])

    def close(self) -> None:
        """Ends the session: later calls fail."""
        self._session.close()


class SignatureCall:
    """Calls a signature with arrays by name; returns its outputs by name. It is prepared by the first call."""

    def __init__(self, session: tf.compat.v1.Session, signature_def: meta_graph_pb2.SignatureDef):
        """Takes a signature of the session's model.

        Raises:
            ValueError: if an input or output is not a dense tensor.
        """
        for name, info in (*signature_def.inputs.items(), *signature_def.outputs.items()):
            if not info.name:
                raise ValueError(f"{name}: is no dense tensor (got {info.WhichOneof('encoding')})")
        self._session = session
        self._inputs, self._outputs = sorted(signature_def.inputs), sorted(signature_def.outputs)
        self._options = config_pb2.CallableOptions(
            feed=[signature_def.inputs[name].name for name in self._inputs],
            fetch=[signature_def.outputs[name].name for name in self._outputs],
            run_options=config_pb2.RunOptions(inter_op_thread_pool=_IN_CALLERS_THREAD),
        )
        self._lock = threading.Lock()
        self._prepared: Any = None

    def __call__(self, arrays: Arrays) -> dict[str, NDArray[Any]]:
        """Returns the outputs."""
        with self._lock:
            if self._prepared is None:
                self._prepared = self._session._make_callable_from_options(self._options)
        outputs = self._prepared(*[arrays[name] for name in self._inputs])
        # A scalar is returned as a number of NumPy's.
        return dict(zip(self._outputs, map(np.asarray, outputs), strict=True))


def _import(graph: tf.Graph, graph_def: Any) -> None:
    """Adds nodes to a graph, and then their functions, one by one.

    TensorFlow would infer the shapes of all functions' nodes otherwise, under Python's lock: requests to the served
    version would wait for a quarter of a second.
    """
    functions = list(graph_def.library.function)
    nodes = graph_pb2.GraphDef(node=graph_def.node, versions=graph_def.versions)
    with graph.as_default():
        tf.import_graph_def(nodes, name="")
    for function in functions:
        imported = c_api_util.ScopedTFFunction(
            pywrap_tf_session.TF_FunctionImportFunctionDef(function.SerializeToString()), function.signature.name
        )
        with graph._c_graph.get() as c_graph, imported.get() as c_function:
            pywrap_tf_session.TF_GraphCopyFunction(c_graph, c_function, None)


def _config() -> config_pb2.ConfigProto:
    """Returns the settings of a session: on the CPU, with TensorFlow's numbers of threads."""
    threads = tf.config.threading
    config = config_pb2.ConfigProto(
        device_count={"GPU": 0},
        intra_op_parallelism_threads=threads.get_intra_op_parallelism_threads(),
        inter_op_parallelism_threads=threads.get_inter_op_parallelism_threads(),
    )
    config.experimental.executor_type = "SINGLE_THREADED_EXECUTOR"
    # One graph of a signature's functions needs no more optimization: with it the first call took six times as long,
    # later ones as long as without.
    config.graph_options.optimizer_options.do_function_inlining = True
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return config
