"""A shard behind gRPC: one method for each call, raw bytes both ways."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.errors import UserError
from sangam.schemas.host.grpc_calls import BoundedCalls
from sangam.schemas.host.limited_log import LimitedLog
from sangam.trainer_module.checkpoint.files import DamagedError
from sangam.trainer_module.checkpoint.manifest import read_manifest
from sangam.trainer_module.checkpoint.restore import own_rows
from sangam.trainer_module.checkpoint.warm_start import warm_rows
from sangam.trainer_module.checkpoint.writer import ServerWriter
from sangam.trainer_module.embedding.persistence import restore
from sangam.trainer_module.embedding.row_store import full_store
from sangam.trainer_module.embedding.statistics import TableCounts, counted
from sangam.trainer_module.parameter_server.meetings import OPERATIONS, Meetings
from sangam.trainer_module.parameter_server.reader import Reader, document, document_of, numbers_of
from sangam.trainer_module.parameter_server.rows import Arrays, Update
from sangam.trainer_module.parameter_server.shard import Push, Shard
from sangam.trainer_module.parameter_server.window import Window
from sangam.trainer_module.parameter_server.wire import Caller, MessageError, attempt_number, decode, encode

_LOG = logging.getLogger("sangam.trainer_module.parameter_server")
SERVICE = "sangam.ParameterServer"
CHANNEL_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.http2.max_frame_size", 16_777_215),
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 64 << 20),
)
"""Messages are as large as a batch; small frames and windows would take as long as copying them."""
_ALLOWED_PINGS = ("grpc.http2.min_ping_interval_without_data_ms", 5_000)
"""Allows the ranks' pings, every 10 s."""
_HANDSHAKE = ("grpc.server_handshake_timeout_ms", 10_000)
_SPARE_CALLS = 64
"""Threads in addition to those of the ranks' calls; up to half as many calls may wait for their message."""
_ARRIVAL_TIMEOUT_S = 300.0
"""Time limit of a message: the dense state of a large model takes minutes on a slow network."""
PATIENCE_S = 5.0
"""Seconds after which a call that waits for other ranks is answered; the rank then calls again."""

_Call = Callable[[Caller, list[NDArray[Any]]], Sequence[NDArray[Any]]]


class Service(grpc.GenericRpcHandler):
    """Answers the ranks of one attempt."""

    def __init__(self, job: TrainJob, attempt: str, *, server: int):
        """Creates an empty shard.

        Args:
            job: the training job.
            attempt: name of the attempt.
            server: this server.
        """
        spec = job.ranker
        self._job, self._server, self._servers = job, server, spec.num_parameter_servers
        self._attempt = attempt_number(attempt)
        self.shard = Shard(spec, server=server)
        self._meetings = Meetings(spec.cluster.ranks)
        self._groups = list(self.shard.rows.stores)
        self._counting = [name for name in self._groups if self.shard.rows.stores[name].group.counts_occurrences]
        self._table_counts: TableCounts | None = None
        self._writer = ServerWriter(server)
        self._begun = Window()
        self._refusals = LimitedLog(_LOG)
        self._seconds: dict[str, float] = {}
        self._calls: dict[str, int] = {}
        self._counts_lock, self._disk_lock = threading.Lock(), threading.Lock()
        calls: dict[str, _Call] = {
            "pull": self._pull,
            "push": self._push,
            "read": self._read,
            "meet": self._meet,
            "exchange": self._exchange,
            "load": self._load,
            "begin": self._begin,
            "save": self._save,
            "evict": self._evict,
            "dense": self._dense,
            "account": self._account,
            "statistics": self._statistics,
        }
        self._handlers = {
            f"/{SERVICE}/{name}": grpc.unary_unary_rpc_method_handler(self._answering(name, call))
            for name, call in calls.items()
        }

    def service(self, handler_call_details: Any) -> Any:
        """Returns the handler of a method."""
        return self._handlers.get(handler_call_details.method)

    def _answering(self, name: str, call: _Call) -> Callable[[bytes, grpc.ServicerContext], bytes]:
        def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
            try:
                caller, arrays = decode(request)
                if caller.attempt != self._attempt:
                    context.abort(grpc.StatusCode.PERMISSION_DENIED, "a rank of another attempt")
                started = time.thread_time()
                answered = encode(caller, call(caller, arrays))
                with self._counts_lock:
                    self._seconds[name] = self._seconds.get(name, 0.0) + time.thread_time() - started
                    self._calls[name] = self._calls.get(name, 0) + 1
                return answered
            except MessageError as error:
                self._refusals.warning(f"refused {name}", str(error))
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            except DamagedError as error:
                context.abort(grpc.StatusCode.DATA_LOSS, str(error))
            except UserError as error:
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
            except tf.errors.InvalidArgumentError as error:
                if (told := full_store(error)) is None:
                    _LOG.exception("%s failed", name)
                    raise
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, told)
            except Exception as error:
                if not isinstance(error, grpc.RpcError) and context.code() is None:
                    self._refusals.error(f"{name} failed", error)
                raise
            raise AssertionError("unreachable")

        return answer

    def _pull(self, caller: Caller, arrays: list[NDArray[Any]]) -> Sequence[NDArray[Any]]:
        message = Reader(arrays)
        (step,) = message.numbers(1)
        keys, observed = self._keys(message), self._observed(message)
        asked = message.take(np.int64, 1)
        message.end()
        version, embeddings, dense = self.shard.pull(caller, keys, observed, asked, step)
        return [numbers_of(version), *embeddings.values(), *([] if dense is None else [dense])]

    def _push(self, caller: Caller, arrays: list[NDArray[Any]]) -> Sequence[NDArray[Any]]:
        message = Reader(arrays)
        step, newest, is_skipped = message.numbers(3)
        push = None
        if not is_skipped:
            factors = message.take(np.float32, 1)
            if len(factors) != 2 or not np.isfinite(factors).all():
                raise MessageError("scale and factor must be two finite numbers")
            scales = message.take(np.float32, 1)
            stores = self.shard.rows.stores
            kind = np.float16 if self.shard.sync.wire == "float16" else np.float32
            by_group = {name: message.take(kind, 2, stores[name].group.dim) for name in self._groups}
            dense = message.take(np.float32, 1) if self.shard.dense is not None else None
            if len(scales) != len(self._groups) or not np.isfinite(scales).all():
                raise MessageError(f"one finite scale a group (got {scales})")
            push = Push(Update(step, float(factors[0]), float(factors[1])), newest, scales, by_group, dense)
        message.end()
        answered = self.shard.push(caller, push, patience_s=PATIENCE_S)
        if answered is None:
            return [numbers_of(0, 0, 0, 0)]
        return [numbers_of(1, answered.outcome, answered.staleness, self.shard.num_updates)]

    def _read(self, caller: Caller, arrays: list[NDArray[Any]]) -> Sequence[NDArray[Any]]:
        del caller
        message = Reader(arrays)
        keys = self._keys(message)
        message.end()
        return list(self.shard.read(keys).values())

    def _meet(self, caller: Caller, arrays: list[NDArray[Any]]) -> Sequence[NDArray[Any]]:
        """Returns the result; empty: call again."""
        if len(arrays) != 3:
            raise MessageError(f"a meeting has three arrays (got {len(arrays)})")
        message = Reader(arrays)
        (operation,) = message.numbers(1)
        name, part = message.take(np.uint8, 1).tobytes().decode(errors="replace"), arrays[2]
        ranks = self._job.ranker.cluster.ranks
        if not (0 <= operation < len(OPERATIONS) and 0 <= caller.rank < ranks):
            raise MessageError(f"no such meeting (got operation {operation}, rank {caller.rank} of {ranks})")
        result = self._meetings.meet(
            name, caller.sequence, caller.rank, OPERATIONS[operation], part, patience_s=PATIENCE_S
        )
        return [] if result is None else [result]

    def table_counts(self) -> dict[str, dict[str, int]]:
        """Returns row and key counts by table, see `TableCounts`; empty before training begins."""
        return {} if self._table_counts is None else self._table_counts.read()

    def _exchange(self, caller: Caller, arrays: list[NDArray[Any]]) -> Sequence[NDArray[Any]]:
        message = Reader(arrays)
        weights = message.take(np.float32, 1)
        message.end()
        return [self.shard.exchange(caller, weights)]

    def _load(self, caller: Caller, arrays: list[NDArray[Any]]) -> Sequence[NDArray[Any]]:
        """Loads this server's rows from a checkpoint of the job, or of its base."""
        del caller
        asked = document(arrays)
        directory = Path(asked["directory"])
        manifest = read_manifest(directory)
        where = {"rank": self._server, "ranks": self._servers}
        with self._disk_lock:  # A repeated call must not load concurrently with the first.
            self.shard.empty()
            if asked["is_base"]:
                held = warm_rows(directory, manifest, self._job.ranker, changed=self._job.changed_features, **where)
            else:
                held = {name: own_rows(directory, manifest, name, **where) for name in manifest.groups}
            for name, store in self.shard.rows.stores.items():
                if name in held:
                    restore(store, held[name], **where)
        _LOG.info("loaded rows=%d from=%s", self._num_rows(), directory)
        return []

    def _begin(self, caller: Caller, arrays: list[NDArray[Any]]) -> Sequence[NDArray[Any]]:
        asked = document(arrays)
        dense = dict(zip(asked["dense"], arrays[1:], strict=True))
        if self._begun.add(caller.sequence):
            self.shard.begin(asked["step"], asked["newest"], dense)
            if self._job.monitoring is not None:
                self._table_counts = TableCounts(self.shard.rows.stores)
        return []

    def _save(self, caller: Caller, arrays: list[NDArray[Any]]) -> Sequence[NDArray[Any]]:
        """Writes the rows while training continues."""
        del caller
        asked = document(arrays)
        with self._disk_lock:
            self._writer.start(Path(asked["target"]), self.shard.cut)
        return []

    def _evict(self, caller: Caller, arrays: list[NDArray[Any]]) -> Sequence[NDArray[Any]]:
        """Returns counts to be summed; none: the rows are removed."""
        message = Reader(arrays)
        sums = message.take(np.int64, 1) if arrays else None
        message.end()
        counts = self.shard.evict(caller, sums)
        return [] if counts is None else [counts]

    def _dense(self, caller: Caller, arrays: list[NDArray[Any]]) -> Sequence[NDArray[Any]]:
        del caller, arrays
        dense = self.shard.dense_arrays()
        return [document_of({"dense": list(dense)}), *dense.values()]

    def _statistics(self, caller: Caller, arrays: list[NDArray[Any]]) -> Sequence[NDArray[Any]]:
        """Returns `statistics.counted` by group."""
        del caller, arrays
        return [document_of({}), *(counted(store) for store in self.shard.rows.stores.values())]

    def _account(self, caller: Caller, arrays: list[NDArray[Any]]) -> Sequence[NDArray[Any]]:
        """Returns this server's counters."""
        del caller, arrays
        told = {
            "updates": self.shard.num_updates,
            "pushes": self.shard.pushes_done(),
            "rows": self._num_rows(),
            "keys": self.shard.num_keys,
            "examples": self.shard.num_examples,
            "overflows": int(self.shard.rows.overflows),
            "calls": self._calls,
            "cpu_s": {name: round(seconds, 3) for name, seconds in self._seconds.items()},
        }
        return [document_of(told)]

    def _num_rows(self) -> int:
        return sum(store.num_rows for store in self.shard.rows.stores.values())

    def _keys(self, message: Reader) -> Arrays:
        return {name: message.take(np.int64, 1) for name in self._groups}

    def _observed(self, message: Reader) -> Arrays:
        return {name: message.take(np.int32, 2, 2) for name in self._counting}


def serve(
    service: grpc.GenericRpcHandler, *, address: str, ranks: int, ahead: int, max_message_bytes: int
) -> tuple[grpc.Server, int]:
    """Starts a gRPC server; returns it and its port.

    Args:
        service: the handler.
        address: host:port; port 0 for any.
        ranks: number of ranks that may call at once.
        ahead: number of one rank's calls that may wait for other ranks at once.
        max_message_bytes: maximum size of a request.

    Raises:
        UserError: the port is in use.
    """
    num_calls = _SPARE_CALLS + ranks * (ahead + 4)
    limit = ("grpc.max_receive_message_length", max_message_bytes)
    server = grpc.server(
        ThreadPoolExecutor(num_calls, "call"),
        interceptors=[BoundedCalls(max_waiting=_SPARE_CALLS // 2, timeout_s=_ARRIVAL_TIMEOUT_S)],
        maximum_concurrent_rpcs=num_calls,
        options=[*CHANNEL_OPTIONS, limit, _HANDSHAKE, _ALLOWED_PINGS, ("grpc.so_reuseport", 0)],
    )
    server.add_generic_rpc_handlers([service])
    try:
        port = server.add_insecure_port(address)
    except RuntimeError as error:
        raise UserError(f"parameter server: cannot serve on {address} ({error}); use a free port") from error
    server.start()
    return server, port
