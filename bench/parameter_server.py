"""Cost of a parameter server's transport: CPU of a pull and a push through TCP, over that of the same in-process.

    python -m bench.parameter_server             # the ratio, float32 and float16, 1 and 2 servers
    python -m bench.parameter_server --costs     # a call, whatever its size, and rows and bytes: for `scale_costs.json`
    python -m bench.parameter_server --load      # 4 servers, ids by Zipf's law: how even keys and CPU are

36,000 unique keys x 16 floats a call, Adam, 500,000 rows. In-process is `rows.Rows`, called as a server calls it. CPU
is that of rank and servers together, all threads, so that time spent waiting does not count. Turns alternate.
"""

import argparse
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from bench.jobs import job_in
from bench.served import ATTEMPT, server_process
from bench.workload import DIM, keys_of, zipf
from sangam.schemas.derived.groups import groups_of
from sangam.schemas.spec import RankerSpec
from sangam.trainer_module.embedding.stores import stores_of
from sangam.trainer_module.launch.children import ALLOCATOR
from sangam.trainer_module.parameter_server.client import Servers, find_servers
from sangam.trainer_module.parameter_server.routing import Request, route
from sangam.trainer_module.parameter_server.rows import Gradients, Rows, Update

_NUM_KEYS, NUM_ROWS, _TURN = 36_000, 500_000, 25
_FEW_KEYS, _FEW_TURN = 400, 250
_IDS_A_BATCH, _NUM_IDS, _EXPONENT = 81_920, 10_000_000, 1.1
_GROUP_TABLE = "ids"
_NO_COUNTS = np.zeros(0, np.int64)

Arrays = dict[str, NDArray[Any]]


def served_ranker(servers: int, wire: str) -> RankerSpec:
    """Returns the declaration of one table on so many servers."""
    document = {
        "name": "bench",
        "tables": {_GROUP_TABLE: {"dim": DIM}},
        "features": {"id": {"kind": "id", "type": "int", "table": _GROUP_TABLE}},
        "tasks": {"y": {"kind": "binary"}},
        "model": {"kind": "shared_bottom", "bottom_units": [8], "tower_units": [8]},
        "training": {
            "batch_size_per_rank": 4096,
            "dense_optimizer": {"kind": "adam", "learning_rate": 0.001},
            "embedding_optimizer": {"kind": "adam", "learning_rate": 0.01},
            "sync": {"kind": "stale", "staleness": 0, "wire": wire},
        },
        "cluster": {"ranks": 1, "data_workers": 0, "parameter_servers": servers},
    }
    return RankerSpec.model_validate_json(json.dumps(document))


@contextmanager
def served(ranker: RankerSpec) -> Iterator[tuple[Servers, list[int]]]:
    """Runs the servers of a job; gives a rank's side of them, and their process ids."""
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as directory:
        file, job = job_in(Path(directory), ranker)
        processes = [
            server_process(file, number, {}).start(Path(directory) / f"{number}.log")
            for number in range(ranker.num_parameter_servers)
        ]
        try:
            servers = find_servers(job, ATTEMPT, rank=0, ranks=1)
            yield servers, [process.pid for process in processes]
            servers.close()
        finally:
            for process in processes:
                process.kill()
                process.wait()


def processor_s(pids: Sequence[int]) -> list[float]:
    """Returns CPU seconds of processes, all their threads: Linux' clock of a process (clock_getcpuclockid(3))."""
    return [time.clock_gettime((~pid << 3) | 2) for pid in pids]


class Remote:
    """Rows on servers."""

    def __init__(self, ranker: RankerSpec, servers: Servers):
        (self._group,) = groups_of(ranker)
        self._servers, self._batches = servers, itertools.count()
        groups, keys = groups_of(ranker), tf.TensorSpec([None], tf.int64)
        self._route = tf.function(
            lambda keys_n: route(groups, {self._group: keys_n}, {}, len(servers)), input_signature=[keys]
        )

    def request(self, keys: NDArray[Any]) -> Request:
        """Returns keys by server."""
        return Request.of(self._route(keys))

    def pull_and_push(self, request: Request, gradients: NDArray[Any]) -> None:
        """Pulls and pushes a batch, as a rank does."""
        number = next(self._batches)
        step = np.array([number + 1], np.int64)
        pulls = [
            server.begin("pull", [step, *request.keys(server.number), _NO_COUNTS], sequence=number)
            for server in self._servers.all
        ]
        for pull in pulls:
            pull.result()
        context: list[NDArray[Any]] = [
            np.array([number + 1, 0, 0], np.int64),
            np.array([1.0, 1.0], np.float32),
            np.array([1.0], np.float32),
        ]
        pushes = [
            server.begin("push", [*context, gradients[request.slices[self._group][server.number]]], sequence=number)
            for server in self._servers.all
        ]
        for push in pushes:
            push.result()


class _Local:
    """Rows in this process."""

    def __init__(self, ranker: RankerSpec, *, half: bool):
        stores = stores_of(groups_of(ranker), seed=0, owners=1)
        (self._group,) = stores
        self._rows, self._step = Rows(stores, half=half), 0

    def pull_and_push(self, keys: NDArray[Any], gradients: NDArray[Any]) -> None:
        """Reads and updates a batch, as a server does."""
        self._step += 1
        pulled = self._rows.pull({self._group: keys}, {}, _NO_COUNTS, self._step)
        self._rows.embeddings(pulled)
        part = Gradients(pulled, {self._group: gradients}, np.ones(1, np.float32))
        self._rows.apply([part], Update(self._step, 1.0, 1.0))


class _Milliseconds(NamedTuple):
    """CPU of a pull and a push of a batch: in-process, and through TCP of the rank and of all servers."""

    alone: float
    rank: float
    server: float


def _turns(ranker: RankerSpec, sizes: Mapping[int, int], repeats: int) -> dict[int, list[_Milliseconds]]:
    """Measures batches of so many rows, and so many of them a turn, in turns."""
    generator = np.random.default_rng(0)
    ids = keys_of(np.arange(NUM_ROWS)[:, None])[:, 0]
    is_half = ranker.training.sync.wire == "float16"  # type: ignore[union-attr]
    kind: Any = np.float16 if is_half else np.float32
    every: dict[int, list[_Milliseconds]] = {rows: [] for rows in sizes}
    with served(ranker) as (servers, pids):
        local, remote = _Local(ranker, half=is_half), Remote(ranker, servers)
        for keys in np.array_split(ids, 20):
            zeros = np.zeros([len(keys), DIM], kind)
            local.pull_and_push(keys, zeros)
            remote.pull_and_push(remote.request(keys), zeros)
        batches = {
            rows: [generator.choice(ids, rows, replace=False) for _ in range(number)] for rows, number in sizes.items()
        }
        requests = {rows: [remote.request(keys) for keys in of_rows] for rows, of_rows in batches.items()}
        for turn, (rows, number) in itertools.product(range(repeats + 1), sizes.items()):
            gradients = generator.standard_normal([rows, DIM]).astype(kind)
            started = time.process_time()
            for keys in batches[rows]:
                local.pull_and_push(keys, gradients)
            own, before = time.process_time(), processor_s(pids)
            for request in requests[rows]:
                remote.pull_and_push(request, gradients)
            ended, after = time.process_time(), processor_s(pids)
            if turn:  # The first one warms up.
                seconds = (own - started, ended - own, sum(after) - sum(before))
                every[rows].append(_Milliseconds(*(each / number * 1e3 for each in seconds)))
    return every


def _ratios(repeats: int) -> None:
    print("servers  wire     in-process ms  through TCP ms (rank + servers)  ratio  least-most")
    for wire, number in itertools.product(("float32", "float16"), (1, 2)):
        turns = _turns(served_ranker(number, wire), {_NUM_KEYS: _TURN}, repeats)[_NUM_KEYS]
        ratios = [(each.rank + each.server) / each.alone for each in turns]
        alone, rank, server = map(statistics.median, zip(*turns, strict=True))
        print(
            f"{number:7d}  {wire}  {alone:13.1f}  {rank + server:11.1f} ({rank:.1f} + {server:.1f})  "
            f"{statistics.median(ratios):15.2f}  {min(ratios):.2f}-{max(ratios):.2f}",
            flush=True,
        )


def _costs(repeats: int) -> None:
    """Prints the servers' entries of `scale_costs.json`: a line through small and large batches."""
    turns = _turns(served_ranker(1, "float32"), {_FEW_KEYS: _FEW_TURN, _NUM_KEYS: _TURN}, repeats)
    few, many = (
        np.array([statistics.median(part) for part in zip(*turns[rows], strict=True)])
        for rows in (_FEW_KEYS, _NUM_KEYS)
    )
    row_ms = (many - few) / (_NUM_KEYS - _FEW_KEYS)
    alone, rank, server = few - _FEW_KEYS * row_ms
    row_mb = (2 * DIM * 4 + 8) / 1e6
    found = {
        "server_row_us": row_ms[0] * 1e3,
        "server_ms_per_mb": max(0.0, row_ms[2] - row_ms[0]) / row_mb,
        "rank_ms_per_mb": row_ms[1] / row_mb,
        "rank_call_ms": rank,
        "server_call_ms": server,
    }
    print(json.dumps(found, indent=1))
    print(f"in-process, besides rows: {alone:.3f} ms")
    for rows, of_rows in turns.items():
        for name, part in zip(_Milliseconds._fields, zip(*of_rows, strict=True), strict=True):
            print(f"{rows:6d} rows {name:6s} {statistics.median(part):.3f} ms ({min(part):.3f}-{max(part):.3f})")


def _load(servers: int, batches: int) -> None:
    """Prints the balance of the servers: each batch's ids follow Zipf's law, so that a few are in every batch."""
    generator, ranker = np.random.default_rng(0), served_ranker(servers, "float32")
    with served(ranker) as (connected, pids):
        remote, before, totals = Remote(ranker, connected), [0.0] * servers, np.zeros([2, servers])
        for batch in range(batches):
            if batch == batches // 4:  # By then the most frequent ids have rows.
                before, totals = processor_s(pids), np.zeros([2, servers])
            ids = keys_of(zipf(generator, _IDS_A_BATCH, _NUM_IDS, _EXPONENT)[:, None])[:, 0]
            request = remote.request(ids)
            (routed,) = request.groups.values()
            ends = np.cumsum(routed.counts_S)
            occurrences = np.bincount(np.searchsorted(ends, routed.index_n, side="right"), minlength=servers)
            totals += np.stack([occurrences, routed.counts_S])
            remote.pull_and_push(request, np.zeros([len(routed.keys_u), DIM], np.float32))
        cpu = np.subtract(processor_s(pids), before)
    for name, of_servers in (("ids of examples", totals[0]), ("unique keys", totals[1]), ("CPU", cpu)):
        print(f"{name:16s} max/mean over {servers} servers {of_servers.max() / of_servers.mean():.3f}")


def main() -> None:
    """Measures, in a process with the allocator settings of a job's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--load", action="store_true")
    parser.add_argument("--costs", action="store_true")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--batches", type=int, default=120, help="of --load")
    arguments = parser.parse_args()
    if ALLOCATOR.items() - os.environ.items():
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **ALLOCATOR})
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    if arguments.load:
        _load(4, arguments.batches)
    elif arguments.costs:
        _costs(arguments.repeats)
    else:
        _ratios(arguments.repeats)


if __name__ == "__main__":
    main()
