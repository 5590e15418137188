"""A SavedModel in a session of TensorFlow: no Python of TensorFlow's lies between the arrays and the graph."""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.core.protobuf import config_pb2, meta_graph_pb2
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
        self._session = tf.compat.v1.Session(graph=tf.Graph(), config=_config())
        with without_wildcards(str(folder)) as path:
            loader = loader_impl.SavedModelLoader(path)
            meta_graph = loader.saved_model.meta_graphs[0]
            tags = list(meta_graph.meta_info_def.tags)
            saver, _ = loader.load_graph(self._session.graph, tags)
            if mapped:
                restore_mapped(self._session, meta_graph, path, mapped)
            else:
                loader.restore_variables(self._session, saver)
            loader.run_init_ops(self._session, tags)
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
                # Half the time of Session.run for a small ranker: it looks nothing up by name.
                self._prepared = self._session._make_callable_from_options(self._options)
        outputs = self._prepared(*[arrays[name] for name in self._inputs])
        return dict(zip(self._outputs, outputs, strict=True))


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
