"""A client of this server and of TensorFlow Serving, with arrays as inputs and outputs."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import grpc
import numpy as np
from numpy.typing import ArrayLike, NDArray
from tensorflow_serving.apis import (
    get_model_status_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from sangam.components.server.tensors import pack, unpack
from sangam.schemas.contracts.request_log import REQUEST_ID_KEY
from sangam.schemas.host.environment import NO_HTTP_PROXY

_OPTIONS = [NO_HTTP_PROXY, ("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


class Client:
    """Sends requests for one model to one server."""

    def __init__(self, channel: Any, name: str):
        self._name = name
        self._prediction = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        self._model = model_service_pb2_grpc.ModelServiceStub(channel)

    def predict(
        self, signature: str, tensors: Mapping[str, ArrayLike], timeout_s: float, version: int | None = None
    ) -> dict[str, NDArray[Any]]:
        """Returns the outputs of a signature by name.

        Raises:
            grpc.RpcError: with the server's code and message.
        """
        response = self.send(self.request(signature, tensors, version), timeout_s)
        return {name: unpack(proto) for name, proto in response.outputs.items()}

    def request(
        self, signature: str, tensors: Mapping[str, ArrayLike], version: int | None = None
    ) -> predict_pb2.PredictRequest:
        """Returns the message that `predict` sends."""
        request = predict_pb2.PredictRequest()
        request.model_spec.name, request.model_spec.signature_name = self._name, signature
        if version is not None:
            request.model_spec.version.value = version
        for name, values in tensors.items():
            pack(np.asarray(values), request.inputs[name])
        return request

    def send(self, request: predict_pb2.PredictRequest, timeout_s: float) -> predict_pb2.PredictResponse:
        """Sends a message unchecked, and returns the response.

        Raises:
            grpc.RpcError: with the server's code and message.
        """
        return self._prediction.Predict(request, timeout=timeout_s)

    def send_as(
        self, request: predict_pb2.PredictRequest, timeout_s: float, request_id: str
    ) -> tuple[predict_pb2.PredictResponse, str]:
        """Sends a message with the id under which a server logs it, empty: one that the server makes; returns the
        response and the id.

        Raises:
            grpc.RpcError: with the server's code and message.
        """
        metadata = ((REQUEST_ID_KEY, request_id),) if request_id else ()
        response, call = self._prediction.Predict.with_call(request, timeout=timeout_s, metadata=metadata)
        return response, dict(call.trailing_metadata() or ()).get(REQUEST_ID_KEY, request_id)

    def status(self, timeout_s: float = 10) -> dict[int, str]:
        """Returns the state of each version, with its problem if any."""
        request = get_model_status_pb2.GetModelStatusRequest()
        request.model_spec.name = self._name
        response = self._model.GetModelStatus(request, timeout=timeout_s)
        state = get_model_status_pb2.ModelVersionStatus.State
        return {
            status.version: f"{state.Name(status.state)} {status.status.error_message}".rstrip()
            for status in response.model_version_status
        }


@contextmanager
def connect(address: str, name: str) -> Iterator[Client]:
    """Connects a client for the model `name` to host:port, and closes the connection afterwards."""
    with grpc.insecure_channel(address, options=_OPTIONS) as channel:
        yield Client(channel, name)
