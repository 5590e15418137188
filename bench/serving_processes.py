"""A server of one process beside one of several: `python -m bench.serving_processes MODEL`.

In turn, and several times, clients in threads, with a connection each, send ready-made requests of `rank` one after the
other (`bench.serving_load`). For each number of candidates, processes and clients it prints a line of JSON: requests/s,
milliseconds of the server's processor time a request, and the server's memory (PSS counts shared pages once). MODEL is
an exported SavedModel with the signature `rank`.
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import psutil
import tensorflow as tf

from bench.ready import memory
from bench.serving import DEMO_CONTEXT, NAME, request_for, server
from bench.serving_load import answered
from sangam.components.server.client import connect
from sangam.schemas.contracts.export import RANK

_SIZES, _CLIENTS, _NUM_REQUESTS = (20, 200, 2_000), (1, 8, 32), 32
_WARM_S = 0.5


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="an exported SavedModel")
    parser.add_argument("--processes", default="1,2", help="numbers of processes")
    parser.add_argument("--seconds", type=float, default=1.5, help="of each case, each time")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--context", default=DEMO_CONTEXT, help="columns with one row for all candidates")
    arguments = parser.parse_args()
    inputs = tf.saved_model.load(str(arguments.model)).signatures[RANK].structured_input_signature[1]
    context = set(arguments.context.split(","))
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sangam-bench-")))
        client = stack.enter_context(connect("localhost:1", NAME))  # It only makes messages.
        servers = {}
        for processes in arguments.processes.split(","):
            folder = scratch / processes / "versions"
            shutil.copytree(arguments.model, folder / "1", ignore=shutil.ignore_patterns("manifest.json"))
            options = ("--processes", processes)
            servers[processes] = stack.enter_context(server(folder, folder.with_name("server.log"), *options))
        for size in _SIZES:
            requests = [
                request_for(inputs, context=context, candidates=size, seed=seed) for seed in range(_NUM_REQUESTS)
            ]
            messages = [client.request(RANK, arrays).SerializeToString() for arrays in requests]
            for clients in _CLIENTS:
                _measure(servers, messages, {"candidates": size, "clients": clients}, arguments)
    return 0


def _measure(
    servers: dict[str, tuple[dict[str, str], int]],
    messages: list[bytes],
    case: dict[str, int],
    arguments: argparse.Namespace,
) -> None:
    found: dict[str, list[tuple[float, float]]] = {processes: [] for processes in servers}
    for _ in range(arguments.repeats):
        for processes, (addresses, pid) in servers.items():
            answered(addresses["grpc"], messages, case["clients"], _WARM_S)
            before = _processor_s(pid)
            rate = answered(addresses["grpc"], messages, case["clients"], arguments.seconds)
            found[processes].append((rate, (_processor_s(pid) - before) / (rate * arguments.seconds) * 1e3))
    for processes, (_, pid) in servers.items():
        rates, costs = zip(*found[processes], strict=True)
        numbers = {
            "processes": int(processes),
            "requests_s": round(statistics.median(rates), 1),
            "least": round(min(rates), 1),
            "most": round(max(rates), 1),
            "server_ms": round(statistics.median(costs), 2),
        }
        print(json.dumps(case | numbers | memory(_pids(pid))), flush=True)


def _pids(pid: int) -> list[int]:
    return [pid, *(child.pid for child in psutil.Process(pid).children())]


def _processor_s(pid: int) -> float:
    times = [psutil.Process(each).cpu_times() for each in _pids(pid)]
    return sum(each.user + each.system for each in times)


if __name__ == "__main__":
    sys.exit(main())
