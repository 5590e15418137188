"""A shard behind a port: one method for each call."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.errors import UserError
from sangam.schemas.host.limited_log import LimitedLog
from sangam.trainer_module.checkpoint.files import DamagedError
from sangam.trainer_module.checkpoint.manifest import read_manifest
from sangam.trainer_module.checkpoint.restore import own_rows
from sangam.trainer_module.checkpoint.warm_start import warm_rows
from sangam.trainer_module.checkpoint.writer import ServerWriter
from sangam.trainer_module.embedding.persistence import restore
from sangam.trainer_module.embedding.row_store import full_store
from sangam.trainer_module.embedding.statistics import TableCounts, counted
from sangam.trainer_module.parameter_server.calls import METHODS, Status, text_array
from sangam.trainer_module.parameter_server.meetings import OPERATIONS, Meetings
from sangam.trainer_module.parameter_server.reader import Reader, document, document_of, numbers_of
from sangam.trainer_module.parameter_server.rows import Arrays, Update
from sangam.trainer_module.parameter_server.shard import Push, Shard
from sangam.trainer_module.parameter_server.stream import PATIENCE_S
from sangam.trainer_module.parameter_server.window import Window
from sangam.trainer_module.parameter_server.wire import Caller, MessageError

_LOG = logging.getLogger("sangam.trainer_module.parameter_server")

_Call = Callable[[Caller, list[NDArray[Any]]], Sequence[NDArray[Any]]]


class Service:
    """Answers the ranks of one attempt."""

    def __init__(self, job: TrainJob, *, server: int):
        """Creates an empty shard.

        Args:
            job: the training job.
            server: this server.
        """
        spec = job.ranker
        self._job, self._server, self._servers = job, server, spec.num_parameter_servers
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
        self._methods: dict[str, _Call] = {name: getattr(self, f"_{name}") for name in METHODS}

    def answer(self, method: str, caller: Caller, arrays: list[NDArray[Any]]) -> tuple[Status, Sequence[NDArray[Any]]]:
        """Answers a call, see `server.Server`; a failure is an answer too."""
        started = time.thread_time()
        try:
            answered = self._methods[method](caller, arrays)
        except Exception as error:  # noqa: BLE001 - the rank raises it
            return self._failed(method, error)
        with self._counts_lock:
            self._seconds[method] = self._seconds.get(method, 0.0) + time.thread_time() - started
            self._calls[method] = self._calls.get(method, 0) + 1
        return Status.DONE, answered

    def _failed(self, method: str, error: Exception) -> tuple[Status, Sequence[NDArray[Any]]]:
        text, status = str(error), Status.FAILED
        if isinstance(error, MessageError):
            status = Status.REFUSED
            self._refusals.warning(f"refused {method}", text)
        elif isinstance(error, UserError):
            status = Status.DAMAGED if isinstance(error, DamagedError) else Status.UNFIT
        elif isinstance(error, tf.errors.InvalidArgumentError) and (told := full_store(error)):
            text, status = told, Status.UNFIT
        else:
            text = f"{method}: {type(error).__name__}: {text}"
            self._refusals.error(f"{method} failed", error)
        return status, [text_array(text)]

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
        """Copies the rows, and writes them while training continues."""
        del caller
        asked = document(arrays)
        with self._disk_lock:
            self._writer.start(Path(asked["target"]), self.shard.snapshot)
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
