"""Calls to a tf.data service that TensorFlow has no Python for: its workers, and the tasks of a lost worker.

They are those of tensorflow/core/data/service/dispatcher.proto and worker.proto (TensorFlow 2.16); of their messages,
only the fields needed here are declared. Others are skipped when a reply is read.
"""

import functools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from sangam.schemas.host.environment import NO_HTTP_PROXY

_REPLY_S = 2.0
_AT_ONCE = 16
# A call opens a connection of its own: a channel that is kept waits ever longer before it tries a lost server again.
_OPTIONS = [NO_HTTP_PROXY]
_SILENT = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)

_Field = descriptor_pb2.FieldDescriptorProto
_TEXT, _INT, _BOOL, _MESSAGE = _Field.TYPE_STRING, _Field.TYPE_INT64, _Field.TYPE_BOOL, _Field.TYPE_MESSAGE
_MESSAGES: dict[str, dict[str, tuple[int, Any]]] = {
    "Worker": {"address": (1, _TEXT)},
    "Workers": {"workers": (1, "Worker")},
    "Task": {"task_id": (4, _INT)},
    "Heartbeat": {"worker_address": (1, _TEXT)},
    "HeartbeatReply": {"new_tasks": (1, "Task")},
    "Progress": {"task_id": (1, _INT), "completed": (2, _BOOL)},
    "Update": {"worker_address": (1, _TEXT), "updates": (2, "Progress")},
}
"""Field to its number and type; a field with a message is repeated."""


class ServiceError(RuntimeError):
    """A server did not answer, or refused a call."""


def workers_of(dispatcher: str) -> list[str]:
    """Returns the addresses of all workers that have ever registered; lost ones too.

    Args:
        dispatcher: host:port.

    Raises:
        ServiceError: the dispatcher does not answer.
    """
    reply = _message("Workers").FromString(_call(dispatcher, "DispatcherService/GetWorkers", b""))
    return [worker.address for worker in reply.workers]


def living(workers: Sequence[str]) -> set[str]:
    """Returns the workers that answer at all."""
    if not workers:
        return set()
    with ThreadPoolExecutor(min(_AT_ONCE, len(workers))) as threads:
        return {worker for worker, answers in zip(workers, threads.map(_answers, workers), strict=True) if answers}


def _answers(worker: str) -> bool:
    try:
        _call(worker, "WorkerService/GetWorkerTasks", b"")
    except ServiceError:
        return False
    return True


def end_tasks(dispatcher: str, worker: str) -> int:
    """Reports all tasks of a lost worker to the dispatcher as done, in the worker's name; returns their number.

    Clients wait for a task's end even if no worker works on it.

    Raises:
        ServiceError: the dispatcher does not answer.
    """
    # The dispatcher answers a worker that reports no task with all its tasks.
    heartbeat = _message("Heartbeat")(worker_address=worker).SerializeToString()
    told = _call(dispatcher, "DispatcherService/WorkerHeartbeat", heartbeat)
    tasks = [task.task_id for task in _message("HeartbeatReply").FromString(told).new_tasks]
    if tasks:
        done = [_message("Progress")(task_id=task, completed=True) for task in tasks]
        update = _message("Update")(worker_address=worker, updates=done).SerializeToString()
        _call(dispatcher, "DispatcherService/WorkerUpdate", update)
    return len(tasks)


def _call(address: str, method: str, request: bytes) -> bytes:
    with grpc.insecure_channel(address, options=_OPTIONS) as channel:
        try:
            reply: bytes = channel.unary_unary(f"/tensorflow.data.{method}")(request, timeout=_REPLY_S)
        except grpc.RpcError as error:
            code = error.code()
            how = "does not answer" if code in _SILENT else f"refuses {method} ({code.name})"
            raise ServiceError(f"{address} {how}") from error
    return reply


def _message(name: str) -> Any:
    return _messages()[f"sangam.{name}"]


@functools.cache
def _messages() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="sangam/service_calls.proto", package="sangam", syntax="proto3")
    for message, fields in _MESSAGES.items():
        added = file.message_type.add(name=message)
        for field, (number, kind) in fields.items():
            if isinstance(kind, str):
                added.field.add(
                    name=field, number=number, type=_MESSAGE, type_name=f".sangam.{kind}", label=_Field.LABEL_REPEATED
                )
            else:
                added.field.add(name=field, number=number, type=kind, label=_Field.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())  # type: ignore[no-untyped-call]
    found: dict[str, Any] = message_factory.MessageFactory(pool).GetMessages([file.name])
    return found
