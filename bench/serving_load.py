"""Requests a second of a server: `python -m bench.serving_load MODEL`.

Clients in threads, each with a connection of its own, send ready-made requests of `rank` one after the other, for one
user each, and leave the answers encoded, so that two cores are the server's as far as can be. In turn, and several
times:

- one client, and eight, of a server as it is by default, which joins the requests that wait;
- eight clients of one that makes one call at a time (`--threads 1`);
- eight clients of one that does not join (`--max-batch-rows 0`), and of one that does neither.

Then what a candidate costs, of one user with 1 and with 2,000, from arrays to arrays. MODEL is an exported SavedModel
with the signature `rank`.
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import tensorflow as tf

from bench.serving import DEMO_CONTEXT, NAME, request_for, server
from sangam.components.server.client import Client
from sangam.schemas.contracts.export import RANK
from sangam.schemas.host.environment import NO_HTTP_PROXY

_METHOD = "/tensorflow.serving.PredictionService/Predict"
_OWN_CONNECTION = [NO_HTTP_PROXY, ("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
_SERVERS: Mapping[str, tuple[str, ...]] = {
    "joined": (),
    "joined, one call at a time": ("--threads", "1"),
    "apart": ("--max-batch-rows", "0"),
    "apart, one call at a time": ("--max-batch-rows", "0", "--threads", "1"),
}
_CASES = (("joined", 1), *((name, 8) for name in _SERVERS))
_SIZES, _LARGE = (1, 20, 200), 2_000
_NUM_REQUESTS, _WARM, _TIMEOUT_S = 32, 100, 60


def answered(address: str, messages: list[bytes], clients: int, seconds: float) -> float:
    """Returns requests per second that are answered to so many clients."""
    counts, end = [0] * clients, time.perf_counter() + seconds

    def ask(client: int) -> None:
        with grpc.insecure_channel(address, options=_OWN_CONNECTION) as channel:
            call = channel.unary_unary(_METHOD)
            while time.perf_counter() < end:
                call(messages[(counts[client] * clients + client) % len(messages)], timeout=_TIMEOUT_S)
                counts[client] += 1

    start = time.perf_counter()
    threads = [threading.Thread(target=ask, args=(client,)) for client in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - start)


def median_s(client: Client, requests: list[dict[str, Any]], count: int) -> float:
    """Returns the median time of so many requests of one client, from arrays to arrays."""
    times = []
    for number in range(_WARM + count):
        before = time.perf_counter()
        client.predict(RANK, requests[number % len(requests)], _TIMEOUT_S)
        times.append(time.perf_counter() - before)
    return statistics.median(times[_WARM:])


def summary(values: list[float]) -> dict[str, float]:
    """Returns the median and the extremes."""
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def main() -> int:
    """Measures, and prints a line of JSON for each number of candidates and one for their cost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="an exported SavedModel")
    parser.add_argument("--seconds", type=float, default=3, help="of each case, each time")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--context", default=DEMO_CONTEXT, help="columns with one row for all candidates")
    arguments = parser.parse_args()
    context = set(arguments.context.split(","))
    inputs = tf.saved_model.load(str(arguments.model)).signatures[RANK].structured_input_signature[1]
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sangam-bench-")))
        addresses = {}
        for place, (name, options) in enumerate(_SERVERS.items()):
            folder = scratch / str(place) / "versions"
            shutil.copytree(arguments.model, folder / "1", ignore=shutil.ignore_patterns("manifest.json"))
            log = scratch / str(place) / "server.log"
            addresses[name] = stack.enter_context(server(folder, log, *options))[0]["grpc"]
        channel = stack.enter_context(grpc.insecure_channel(addresses["joined"], options=_OWN_CONNECTION))
        client = Client(channel, NAME)
        requests = {
            size: [request_for(inputs, context=context, candidates=size, seed=seed) for seed in range(_NUM_REQUESTS)]
            for size in (*_SIZES, _LARGE)
        }
        for size in _SIZES:
            messages = [client.request(RANK, arrays).SerializeToString() for arrays in requests[size]]
            print(json.dumps({"candidates": size, **_throughput(addresses, messages, arguments)}), flush=True)
        ratios = []
        for _ in range(arguments.repeats):
            one, many = median_s(client, requests[1], 500), median_s(client, requests[_LARGE], 100)
            ratios.append(one * _LARGE / many)
        print(json.dumps({"one_ms": one * 1e3, "large_ms": many * 1e3, "times_cheaper": summary(ratios)}))
    return 0


def _throughput(addresses: Mapping[str, str], messages: list[bytes], arguments: Any) -> dict[str, Any]:
    """Returns requests/s of each case, and the ratios within one repeat."""
    rates: dict[tuple[str, int], list[float]] = {case: [] for case in _CASES}
    for name in addresses:
        answered(addresses[name], messages, 8, 0.5)
    for _ in range(arguments.repeats):
        for name, clients in _CASES:
            rates[name, clients].append(answered(addresses[name], messages, clients, arguments.seconds))
    joined = rates["joined", 8]
    return {
        **{f"{name}, {clients} clients": summary(rates[name, clients]) for name, clients in _CASES},
        **{
            f"8 joined over {name}, {clients}": summary(
                [a / b for a, b in zip(joined, rates[name, clients], strict=True)]
            )
            for name, clients in _CASES
            if (name, clients) != ("joined", 8)
        },
    }


if __name__ == "__main__":
    sys.exit(main())
