"""One version of a model in memory: loaded, warmed up, ready to answer."""

import logging
import os
import re
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import prediction_log_pb2

from sangam.components.drift.comparison import Comparison, comparison_of
from sangam.components.request_log.served import Plan, plan_of
from sangam.components.request_log.settings import settings_of
from sangam.components.server.request_error import Code, RequestError, invalid
from sangam.components.server.session import Arrays, ModelSession
from sangam.components.server.signature import Input, Signature, signatures_of
from sangam.components.server.tensors import to_array
from sangam.schemas.contracts import drift_reference
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

_LOG = logging.getLogger(__name__)
# As TensorFlow Serving's.
# https://github.com/tensorflow/serving/blob/2.16.1/tensorflow_serving/servables/tensorflow/saved_model_warmup_util.h
_MAX_WARMUP_REQUESTS = 1000
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
        logged: what is logged of its requests, where the server has a log; None: nothing.
        compared: what its requests are compared with; None: it was pushed without.
    """

    def __init__(self, folder: Path, version: int, *, map_tables: bool = False):
        """Loads a SavedModel, without verification and warm-up.

        Args:
            folder: folder of the SavedModel.
            version: number.
            map_tables: whether large tables are mapped into memory; their files must stay as they are.

        Raises:
            NotServable: with the reason.
        """
        self.version = version
        self._folder = folder
        described = _description(folder)
        _register_custom_ops(folder, described)
        try:
            self._session = ModelSession(folder, described.own_files if described and map_tables else {})
            self.signatures = signatures_of(self._session)
        except Exception as error:
            raise NotServable("cannot_load", f"{folder}: cannot be loaded ({_one_line(error)})") from error
        if not self.signatures:
            raise NotServable("cannot_load", f"{folder}: has no signature (got {MODEL_FILE} without one)")
        self.logged: Plan | None = _logged(folder, described, version)
        self.compared: Comparison | None = _compared(folder, described, version)
        # After the last request that uses the version, whoever still has a signature of it.
        weakref.finalize(self, self._session.close)

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
            return signature.call(arrays)
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
        return self._session.signature_defs

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
            name: _zeros([1 if length is None else length for length in expected.lengths], expected)
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


def _logged(folder: Path, described: Description | None, version: int) -> Plan | None:
    try:
        return plan_of(settings_of(folder), described, version)
    except UserError as error:
        raise NotServable("cannot_load", str(error)) from error


def _compared(folder: Path, described: Description | None, version: int) -> Comparison | None:
    try:
        found = comparison_of(folder, described, version)
    except UserError as error:
        raise NotServable("cannot_load", str(error)) from error
    if described is not None and found is None:
        _LOG.info("version=%d drift=not_compared: %s has no %s", version, folder, drift_reference.FILE_NAME)
    return found


def ranker_name(folder: Path) -> str | None:
    """Returns the name in a model's ranker.json, if any."""
    described = _description(folder)
    return described.name if described else None


def _register_custom_ops(folder: Path, described: Description | None) -> None:
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


def _zeros(lengths: Sequence[int], expected: Input) -> NDArray[Any]:
    return np.full(lengths, b"" if expected.is_string else 0, expected.numpy_dtype)


def _one_line(error: Exception) -> str:
    """Returns a TensorFlow error's message in one line, without locations in graphs."""
    if isinstance(error, UnicodeDecodeError):  # `object` is the message, with bytes that are not UTF-8.
        text = error.object.decode(errors="backslashreplace")
    else:
        text = f"{type(error).__name__}: {getattr(error, 'message', error)}"
    return re.sub(r"\s+", " ", _GRAPH_LOCATIONS.sub(" ", text)).strip()[:_TEXT_CHARACTERS]
