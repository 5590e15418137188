"""The gRPC interface of TensorFlow Serving: PredictionService, ModelService, health and reflection, on one port."""

import threading
import time
from collections.abc import Callable
from concurrent import futures
from typing import Any, NoReturn

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from sangam.components.server.grpc_arrivals import Arrivals
from sangam.components.server.predictor import Observation, Predictor, Target
from sangam.components.server.request_error import Code, RequestError, invalid
from sangam.components.server.served_log import new_id
from sangam.components.server.services import SERVICES
from sangam.components.server.session import Arrays
from sangam.components.server.signature import Signature
from sangam.components.server.statuses import metadata, model_status
from sangam.components.server.tensors import to_array, write
from sangam.schemas.contracts.request_log import REQUEST_ID_KEY
from sangam.schemas.host.limited_log import shown

_SIGNATURE_DEF = "signature_def"
_SPARE_CALLS = 64
"""Open calls in addition to running and waiting ones, each with a thread and possibly a message in memory: calls
answered at once (health, status and refusals), and, up to half, streams and calls whose message has not arrived."""
_ARRIVAL_TIMEOUT_S = 30.0
_TIMES = [
    # For a connection that sends nothing, not even HTTP/2's preface.
    ("grpc.server_handshake_timeout_ms", 10_000),
    # Pings silent clients, and closes connections without calls.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.max_connection_idle_ms", 900_000),
]


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Predictions, and the signatures of a model."""

    def __init__(self, predictor: Predictor):
        self._predictor = predictor

    def Predict(self, request: Any, context: Any) -> Any:
        """Runs a signature."""
        return _answer(self._predictor, "Predict", context, lambda observed: self._predict(request, context, observed))

    def GetModelMetadata(self, request: Any, context: Any) -> Any:
        """Returns the signatures."""
        return _answer(self._predictor, "GetModelMetadata", context, lambda _: self._metadata(request))

    def Classify(self, request: Any, context: Any) -> Any:  # noqa: ARG002
        """Refuses: not offered."""
        return _answer(self._predictor, "Classify", context, lambda _: _not_offered("Classify"))

    def Regress(self, request: Any, context: Any) -> Any:  # noqa: ARG002
        """Refuses: not offered."""
        return _answer(self._predictor, "Regress", context, lambda _: _not_offered("Regress"))

    def MultiInference(self, request: Any, context: Any) -> Any:  # noqa: ARG002
        """Refuses: not offered."""
        return _answer(self._predictor, "MultiInference", context, lambda _: _not_offered("MultiInference"))

    def _predict(self, request: Any, context: Any, observed: Observation) -> Any:
        if self._predictor.log_of_requests is not None:
            observed.request_id = _request_id(context)
        left = context.time_remaining()
        limit = self._predictor.max_bytes

        def read(signature: Signature) -> Arrays:
            if not context.is_active():
                raise RequestError(Code.DEADLINE_EXCEEDED, "deadline: the client disconnected; the request was not run")
            signature.check_names(request.inputs)
            return {name: to_array(signature.input(name), proto, limit) for name, proto in request.inputs.items()}

        answer = self._predictor.predict(
            Target(request.model_spec.name, _version(request.model_spec), request.model_spec.signature_name),
            read,
            deadline=None if left is None else time.monotonic() + left,
            observed=observed,
            output_names=request.output_filter,
        )
        response = predict_pb2.PredictResponse()
        spec = response.model_spec
        spec.name, spec.signature_name, spec.version.value = self._predictor.name, answer.signature, answer.version
        for name, array in answer.outputs.items():
            write(array, response.outputs[name])
        return response

    def _metadata(self, request: Any) -> Any:
        self._predictor.check_name(request.model_spec.name)
        if list(request.metadata_field) != [_SIGNATURE_DEF]:
            raise invalid(f"metadata_field: unknown (got {list(request.metadata_field)}); {_SIGNATURE_DEF} is known")
        model = self._predictor.versions.ready(_version(request.model_spec))
        response = get_model_metadata_pb2.GetModelMetadataResponse()
        response.model_spec.name, response.model_spec.version.value = self._predictor.name, model.version
        response.metadata[_SIGNATURE_DEF].Pack(metadata(model))
        return response


class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    """The states of a model's versions."""

    def __init__(self, predictor: Predictor):
        self._predictor = predictor

    def GetModelStatus(self, request: Any, context: Any) -> get_model_status_pb2.GetModelStatusResponse:
        """Returns the states of the versions."""
        return _answer(
            self._predictor,
            "GetModelStatus",
            context,
            lambda _: model_status(self._predictor, request.model_spec.name, _version(request.model_spec)),
        )

    def HandleReloadConfigRequest(self, request: Any, context: Any) -> Any:  # noqa: ARG002
        """Refuses: not offered."""
        return _answer(
            self._predictor, "HandleReloadConfigRequest", context, lambda _: _not_offered("HandleReloadConfigRequest")
        )


class _Health(health.HealthServicer):
    """The health service of the services that exist: each other name that was watched would stay in memory."""

    def Watch(self, request: Any, context: Any, send_response_callback: Any = None) -> Any:
        """Sends the status of a service, and each change of it."""
        if request.service not in ("", *SERVICES):
            context.abort(Code.NOT_FOUND, f"service: unknown (got '{shown(request.service)}'); see reflection")
        return super().Watch(request, context, send_response_callback)


class GrpcServer:
    """The server and its health.

    Attributes:
        port: port that it listens on.
    """

    def __init__(self, predictor: Predictor, *, address: str, num_requests: int, shares_port: bool = False):
        """Binds the address, host:port with 0 for any port; `num_requests` may run or wait at once.

        Processes with `shares_port` may listen at one port, and the kernel deals connections to them.

        Raises:
            RuntimeError: if it cannot listen there.
        """
        num_calls = num_requests + _SPARE_CALLS
        arrivals = Arrivals(predictor, max_waiting=_SPARE_CALLS // 2, timeout_s=_ARRIVAL_TIMEOUT_S)
        self._server = grpc.server(
            futures.ThreadPoolExecutor(num_calls, thread_name_prefix="grpc"),
            interceptors=[arrivals],
            maximum_concurrent_rpcs=num_calls,
            options=[
                *_TIMES,
                ("grpc.max_receive_message_length", predictor.max_bytes),
                # Otherwise two servers could silently share a port and its clients.
                ("grpc.so_reuseport", int(shares_port)),
            ],
        )
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(PredictionService(predictor), self._server)
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(ModelService(predictor), self._server)
        self._health = _Health(experimental_non_blocking=True)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection((*SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME), self._server)
        self.set_ready(False)
        self.port = self._server.add_insecure_port(address)

    def start(self) -> None:
        """Starts to answer."""
        self._server.start()

    def set_ready(self, is_ready: bool) -> None:
        """Sets the status of the health service."""
        status = health_pb2.HealthCheckResponse.SERVING if is_ready else health_pb2.HealthCheckResponse.NOT_SERVING
        for service in ("", *SERVICES):
            self._health.set(service, status)

    def stop(self, grace_s: float) -> threading.Event:
        """Accepts no new request; the returned event is set when the running ones, or the grace period, have ended."""
        ended: threading.Event = self._server.stop(grace_s)
        return ended


def _answer(predictor: Predictor, method: str, context: Any, work: Callable[[Observation], Any]) -> Any:
    try:
        with predictor.observe("grpc", method) as observed:
            return work(observed)
    except RequestError as refused:
        context.abort(refused.code, refused.text)


def _request_id(context: Any) -> str:
    """Returns the id that the caller gave, or a new one, which the answer also has."""
    found = next((value for key, value in context.invocation_metadata() if key == REQUEST_ID_KEY), None) or new_id()
    context.set_trailing_metadata(((REQUEST_ID_KEY, found),))
    return str(found)


def _version(model_spec: model_pb2.ModelSpec) -> int | None:
    choice = model_spec.WhichOneof("version_choice")
    if choice == "version_label":
        raise RequestError(
            Code.NOT_FOUND, f"model_spec.version_label: unknown (got '{model_spec.version_label}'); give a version"
        )
    return int(model_spec.version.value) if choice == "version" else None


def _not_offered(method: str) -> NoReturn:
    raise RequestError(Code.UNIMPLEMENTED, f"{method}: not offered by this server; Predict with a signature is")
