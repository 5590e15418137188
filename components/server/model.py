"""One version of a model in memory: loaded, warmed up, ready to answer."""

import logging
import os
import re
import time
import weakref
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2, saved_model_pb2
from tensorflow.python.eager import context
from tensorflow.python.framework import ops
from tensorflow_serving.apis import prediction_log_pb2

from sangam.components.server.calls import Arrays
from sangam.components.server.request_error import Code, RequestError, invalid
from sangam.components.server.signature import Signature, signatures_of
from sangam.components.server.tensors import to_array
from sangam.schemas.contracts.export import (
    BLOCKS,
    CUSTOM_OPS,
    DESCRIPTION_FILE,
    MODEL_FILE,
    SERVE,
    WARM_UP_FILE,
    Description,
    read_description,
)
from sangam.schemas.errors import UserError
from sangam.schemas.host.wildcards import without_wildcards

_LOG = logging.getLogger(__name__)
# As TensorFlow Serving's.
# https://github.com/tensorflow/serving/blob/2.16.1/tensorflow_serving/servables/tensorflow/saved_model_warmup_util.h
_MAX_WARMUP_REQUESTS = 1000
_INIT = "__saved_model_init_op"
_TEXT_CHARACTERS = 600
_GRAPH_LOCATIONS = re.compile(
    r"Graph execution error:|Detected at node .*|<stack traces unavailable>|\[Op:\w+\]|\[\[.*?\]\]"
)


class NotServable(Exception):
    """A version that cannot be served.

    Attributes:
        reason: one word, for metrics.
    """

    def __init__(self, reason: str, text: str):
        super().__init__(text)
        self.reason = reason


class LoadedModel:
    """A version in memory; it is freed after the last request that uses it.

    Attributes:
        version: number.
        signatures: signatures by name.
    """

    def __init__(self, folder: Path, version: int):
        """Loads a SavedModel, without verification and warm-up.

        Raises:
            NotServable: with the reason.
        """
        self.version = version
        self._folder = folder
        _register_custom_ops(folder)
        try:
            self._loaded = _load(folder)
            self.signatures = signatures_of(self._loaded)
        except Exception as error:
            raise NotServable("cannot_load", f"{folder}: cannot be loaded ({_one_line(error)})") from error
        if not self.signatures:
            raise NotServable("cannot_load", f"{folder}: has no signature (got {MODEL_FILE} without one)")
        # Hash tables outlive the model that made them. This runs after the last request that uses the version.
        weakref.finalize(self, _release, self._loaded)

    def signature(self, name: str) -> Signature:
        """Returns a signature.

        Raises:
            RequestError: if there is none of this name.
        """
        signature = self.signatures.get(name or SERVE)
        if signature is None:
            known = ", ".join(sorted(self.signatures))
            raise invalid(f"signature_name: unknown (got '{name}'); version {self.version} has {known}")
        return signature

    def run(self, signature: Signature, arrays: Arrays) -> dict[str, Any]:
        """Returns the outputs, name to array.

        Raises:
            RequestError: if the model cannot compute them from these arrays.
        """
        try:
            return {name: output.numpy() for name, output in signature.call(arrays).items()}
        # UnicodeDecodeError: TensorFlow's message repeats bytes of the request that are not UTF-8.
        except (tf.errors.InvalidArgumentError, UnicodeDecodeError) as error:
            raise invalid(
                f"inputs: the model cannot read them (got {_one_line(error)}); correct the inputs of {signature.name}"
            ) from None
        except tf.errors.ResourceExhaustedError as error:
            raise RequestError(
                Code.RESOURCE_EXHAUSTED, f"server: out of memory (got {_one_line(error)}); send fewer rows"
            ) from None

    def warm_up(self) -> int:
        """Runs the model's recorded requests, and synthetic ones for other signatures; returns how many ran.

        The first run of a signature takes a hundred times longer than later ones.

        Raises:
            NotServable: if a recorded request fails.
        """
        path, recorded = self._folder / WARM_UP_FILE, []
        if path.exists():
            try:
                for record in tf.data.TFRecordDataset(str(path)).take(_MAX_WARMUP_REQUESTS).as_numpy_iterator():
                    recorded += self._run_recorded(prediction_log_pb2.PredictionLog.FromString(record))
            except Exception as error:
                text = f"{path}: request {len(recorded) + 1} fails ({_one_line(error)})"
                raise NotServable("warmup_failed", text) from error
        # Blocks are for batches of rows, not for requests: preparing one more graph would delay the first answer.
        others = [signature for name, signature in self.signatures.items() if name not in (*recorded, BLOCKS)]
        return len(recorded) + sum(self._run_synthetic(signature) for signature in others if not signature.is_update)

    def signature_defs(self) -> dict[str, meta_graph_pb2.SignatureDef]:
        """Returns the SavedModel's SignatureDefs by name."""
        read = saved_model_pb2.SavedModel.FromString((self._folder / MODEL_FILE).read_bytes())
        return {
            name: signature_def
            for graph in read.meta_graphs[:1]
            for name, signature_def in graph.signature_def.items()
            if name != _INIT
        }

    def _run_recorded(self, log: prediction_log_pb2.PredictionLog) -> list[str]:
        """Runs a recorded request; returns its signature, or an empty list if it is not a Predict request."""
        if log.WhichOneof("log_type") != "predict_log":
            return []
        request = log.predict_log.request
        signature = self.signature(request.model_spec.signature_name)
        signature.check_names(request.inputs)
        limit = os.path.getsize(self._folder / WARM_UP_FILE) + 2**24
        inputs = signature.inputs
        self.run(signature, {name: to_array(inputs[name], proto, limit) for name, proto in request.inputs.items()})
        return [signature.name]

    def _run_synthetic(self, signature: Signature) -> int:
        """Runs one row of zeros: TensorFlow prepares the graph, even if the model then refuses the row."""
        start = time.monotonic()
        synthetic = {
            name: tf.zeros([1 if length is None else length for length in expected.lengths], expected.dtype)
            for name, expected in signature.inputs.items()
            if expected.lengths is not None
        }
        try:
            signature.call(synthetic)
        except (tf.errors.OpError, TypeError, ValueError) as error:
            _LOG.debug("signature=%s warmup=%s", signature.name, _one_line(error))
            return 0
        _LOG.debug("signature=%s warmup_s=%.2f", signature.name, time.monotonic() - start)
        return 1


def _load(folder: Path) -> Any:
    """Loads a SavedModel without the gradients of its functions.

    TensorFlow never frees gradients, and each refers to all graphs of its model: the server would grow with each
    version. Serving needs no gradients.
    """
    known = set(ops.gradient_registry.list())
    try:
        with without_wildcards(str(folder)) as path:
            return tf.saved_model.load(path)
    finally:
        for name in set(ops.gradient_registry.list()) - known:
            del ops.gradient_registry._registry[name]


def _release(loaded: Any) -> None:
    """Frees the tables of a model exported by Sangam; other models lack this function."""
    if hasattr(loaded, "release"):
        # The garbage collector may call this while another model is loaded, whose graph the call must not get into.
        with context.eager_mode():
            loaded.release()


def ranker_name(folder: Path) -> str | None:
    """Returns the name in a model's ranker.json, if any."""
    described = _description(folder)
    return described.name if described else None


def _register_custom_ops(folder: Path) -> None:
    described = _description(folder)
    if described is None or not described.custom_ops:
        return
    try:
        import tensorflow_recommenders_addons  # noqa: F401
    except ImportError as error:
        raise NotServable(
            "cannot_load", f"{folder}: needs {CUSTOM_OPS} (got {error}); install it, or export form: stock"
        ) from error


def _description(folder: Path) -> Description | None:
    """Returns a model's description; None for a model that Sangam did not export."""
    file = folder / DESCRIPTION_FILE
    try:
        return read_description(str(file), file.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, UserError) as error:
        raise NotServable("cannot_load", str(error)) from error


def _one_line(error: Exception) -> str:
    """Returns a TensorFlow error's message in one line, without locations in graphs."""
    if isinstance(error, UnicodeDecodeError):  # `object` is the message, with bytes that are not UTF-8.
        text = error.object.decode(errors="backslashreplace")
    else:
        text = f"{type(error).__name__}: {getattr(error, 'message', error)}"
    return re.sub(r"\s+", " ", _GRAPH_LOCATIONS.sub(" ", text)).strip()[:_TEXT_CHARACTERS]
