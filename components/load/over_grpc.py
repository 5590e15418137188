"""Requests to a server's gRPC interface; imports TensorFlow, whose messages they are."""

import itertools
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import grpc
import grpc.aio
from google.protobuf import json_format
from tensorflow_serving.apis import get_model_metadata_pb2, prediction_service_pb2_grpc

from sangam.components.load.offering import OK
from sangam.components.load.signature import Arrays
from sangam.components.server.client import Client
from sangam.schemas.contracts.export import RANK
from sangam.schemas.errors import UserError
from sangam.schemas.host.environment import NO_HTTP_PROXY

_METHOD = "/tensorflow.serving.PredictionService/Predict"
_OPTIONS = [
    NO_HTTP_PROXY,
    ("grpc.use_local_subchannel_pool", 1),  # Else channels share a connection.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
]
_START_S = 10.0
_SIGNATURES = "signature_def"
_SERVED = re.compile(r"; this server serves (\S+)$")
"""The end of the refusal of a request without a name (`Predictor.check_name`)."""


class GrpcServer:
    """A server's gRPC interface, with open connections that take requests in turn."""

    def __init__(self, channels: Sequence[Any], name: str):
        self._channel, self._client = channels[0], Client(channels[0], name)
        self._name = name
        self._calls = itertools.cycle([channel.unary_unary(_METHOD) for channel in channels])

    async def metadata(self) -> Any:
        """Returns the model's signatures.

        Raises:
            UserError: the server does not tell them.
        """
        try:
            answer = await _metadata(self._channel, self._name)
        except grpc.RpcError as error:
            raise UserError(
                f"ADDRESS: tells no signatures (got {error.code().name}: {error.details()}); give --name of a model "
                "that is served there"
            ) from None
        signatures = get_model_metadata_pb2.SignatureDefMap()
        answer.metadata[_SIGNATURES].Unpack(signatures)
        return json_format.MessageToDict(signatures, preserving_proto_field_name=True)

    def message(self, arrays: Arrays) -> bytes:
        """Returns the message of a request."""
        return self._client.request(RANK, arrays).SerializeToString()

    async def send(self, message: bytes, timeout_s: float) -> str:
        """Sends a request; returns the code of its answer."""
        try:
            await next(self._calls)(message, timeout=timeout_s)
        except grpc.RpcError as error:
            return str(error.code().name)
        return OK


@asynccontextmanager
async def connect(address: str, name: str, connections: int) -> AsyncIterator[GrpcServer]:
    """Connects to host:port, so many times.

    Raises:
        UserError: nothing answers there, or the model's name is missing.
    """
    async with AsyncExitStack() as stack:
        channels = [
            await stack.enter_async_context(grpc.aio.insecure_channel(address, options=_OPTIONS))
            for _ in range(connections)
        ]
        name = name or await _name(channels[0], address)
        yield GrpcServer(channels, name)


async def _name(channel: Any, address: str) -> str:
    try:
        await _metadata(channel, "")
    except grpc.RpcError as error:
        if served := _SERVED.search(error.details() or ""):
            return served[1]
        raise UserError(
            f"ADDRESS: no server of gRPC tells its model there (got {address}: {error.code().name}: "
            f"{(error.details() or '')[:200]}); give host:port of gRPC, http://host:port of REST, or --name"
        ) from None
    raise UserError("--name: is missing (got a server that answers without one); give the model's name")


async def _metadata(channel: Any, name: str) -> Any:
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=[_SIGNATURES])
    request.model_spec.name = name
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    return await stub.GetModelMetadata(request, timeout=_START_S)
