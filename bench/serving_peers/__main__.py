"""What serving costs here and on peers, in one run: `python -m bench.serving_peers MODEL`.

MODEL is a pushed version of the demo; the logs are those beside its root, or `--logs`. This server over gRPC, its call
in process, the dense part alone in TensorFlow, ONNX Runtime, OpenVINO and AOTInductor, with the same weights, and
LightGBM's own predictor for the same tasks answer the same requests, of one user with 200 and with 2,000 posts, in
turn, with one thread each on the same core. All but LightGBM must have the server's scores. A core is counted by
processor time. The peers are in an environment of their own (`bench/peers/setup.sh`); what they read is made once and
kept in `build/bench/serving_peers`: `--prepare` makes it and measures nothing.
"""

import argparse
import dataclasses
import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from bench import results
from bench.machine import this_machine
from bench.processes import cores
from bench.serving import NAME, server
from bench.serving_peers import tables
from bench.serving_peers.preparation import VERSIONS, prepare, read_requests, read_tasks
from bench.serving_peers.tables import Traffic
from bench.serving_peers.worker import SIZES, Call, measure, refuse_other_scores
from bench.torch_processes import ENVIRONMENT, PYTHON
from sangam.components.server.client import connect
from sangam.schemas.contracts.export import RANK

Turn = Callable[[int, float], Mapping[str, Any]]
"""Answers requests of so many candidates for so many seconds; returns the numbers of `worker.measure`."""
_OURS, _PEERS = ("call", "dense"), ("lookups", "onnxruntime", "openvino", "aot_inductor", "lightgbm")
_CLIENTS, _TIMEOUT_S = 8, 60
_SHARECHAT = Traffic("8,000 requests/s of 2,000", 8_000 * 86_400, 2_000)


def main() -> None:
    """Measures, and prints tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a pushed version of the demo")
    parser.add_argument("--logs", type=Path, help="folder of days; default: logs beside the root of the version")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.9, help="of each turn")
    parser.add_argument("--core-hour", type=float, default=0.04, help="price of a core for an hour, in USD")
    parser.add_argument("--prepare", action="store_true", help="makes what the contestants read, and ends")
    parser.add_argument("--output", type=Path, default=Path("runs/serving_peers.json"), help="all numbers")
    arguments = parser.parse_args()
    if not PYTHON.exists():
        print("serving_peers: the peers are not here and are left out (bench/peers/setup.sh)", flush=True)
    logs = arguments.logs or arguments.model.absolute().parents[2].with_name("logs")
    if not logs.is_dir():
        raise SystemExit(f"--logs: no such folder (got {logs}); give the days that the version was trained on")
    folder = prepare(arguments.model, logs, Path("build/bench/serving_peers"))
    if arguments.prepare:
        return
    turns = _turns(folder, arguments.rounds, arguments.seconds)
    found = {name: {size: tables.measured(of[size], size) for size in SIZES} for name, of in turns.items()}
    demo = Traffic("the demo's traffic", len(np.load(folder / "scores.npy")), 200)
    machine, quality = this_machine(), _quality(folder)
    document = {name: {size: dataclasses.asdict(each) for size, each in of.items()} for name, of in found.items()}
    results.write(
        arguments.output,
        {"commit": results.commit(), "machine": machine.line, "core_hour": arguments.core_hour, "found": document}
        | {"auc": quality},
    )
    print(f"{machine.line}; {results.commit()}; {arguments.core_hour} USD for a core's hour\n")
    print(tables.speeds(found, arguments.core_hour), "\n")
    print(tables.days(found, arguments.core_hour, [demo, _SHARECHAT]), "\n")
    print(tables.quality(quality))


def _turns(folder: Path, rounds: int, seconds: float) -> dict[str, dict[int, list[Mapping[str, Any]]]]:
    """Returns the turns of each contestant by number of candidates: all take one before any takes the next."""
    core, *_, own = [*cores(), *cores()]
    with ExitStack() as stack:
        stack.enter_context(_on(own))  # First: threads of the client stay where they were started.
        contestants = dict(zip(("server", "server_busy"), stack.enter_context(_server(folder, core)), strict=True))
        for name in (*_OURS, *(_PEERS if PYTHON.exists() else ())):
            contestants[name] = stack.enter_context(_worker(name, folder, core))
        taken: dict[str, dict[int, list[Mapping[str, Any]]]] = {
            name: {size: [] for size in SIZES} for name in contestants
        }
        for _ in range(rounds):
            for size in SIZES:
                for name, turn in contestants.items():
                    taken[name][size].append(turn(size, seconds))
        return taken


@contextmanager
def _on(core: int) -> Iterator[None]:
    """Runs this thread, and the processes that it starts, on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def _server(folder: Path, core: int) -> Iterator[tuple[Turn, Turn]]:
    """Starts a server with one thread; yields the turns of one client and of several.

    They send messages that were made before, and leave the answers packed.
    """
    tasks = read_tasks(folder)
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as scratch, ExitStack() as stack:
        log = Path(scratch) / "server.log"
        with _on(core):
            addresses, pid = stack.enter_context(server(folder / VERSIONS, log, "--threads", "1"))
        client = stack.enter_context(connect(addresses["grpc"], NAME))
        calls: dict[int, list[Call]] = {}
        for size in SIZES:
            requests = read_requests(folder, size)
            for arrays, scores in zip(requests, np.load(folder / f"requests-{size}.npz")["scores"], strict=True):
                answer = client.predict(RANK, arrays, _TIMEOUT_S)
                refuse_other_scores("server", np.concatenate([answer[task] for task in tasks], 1), scores)
            messages = [client.request(RANK, arrays) for arrays in requests]
            calls[size] = [functools.partial(client.send, message, _TIMEOUT_S) for message in messages]
        processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]

        def processor_s() -> float:
            times = [process.cpu_times() for process in processes]
            return sum(each.user + each.system for each in times)

        def busy(size: int, seconds: float) -> Mapping[str, Any]:
            begun, of = processor_s(), calls[size]
            with ThreadPoolExecutor(_CLIENTS) as clients:
                own = [[*of[number:], *of[:number]] for number in range(_CLIENTS)]
                parts = clients.map(lambda each: measure(each, seconds, processor_s, warm=0)["ms"], own)
                return {"ms": [each for part in parts for each in part], "processor_s": processor_s() - begun}

        yield lambda size, seconds: measure(calls[size], seconds, processor_s), busy


@contextmanager
def _worker(name: str, folder: Path, core: int) -> Iterator[Turn]:
    """Starts the process of a contestant."""
    ours = name in _OURS
    python, module = (sys.executable, "ours") if ours else (str(PYTHON), "peer")
    command = [python, "-W", "ignore", "-m", f"bench.serving_peers.{module}", name, str(folder)]
    environment = {**os.environ, **({} if ours else ENVIRONMENT), "OMP_NUM_THREADS": "1"}
    with _on(core):
        process = subprocess.Popen(command, env=environment, stdin=-1, stdout=-1, text=True, bufsize=1)
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked, answers = process.stdin, process.stdout
        if answers.readline().strip() != "ready":
            raise SystemExit(f"bench.serving_peers: {name} did not start; its error is above")

        def turn(candidates: int, seconds: float) -> Mapping[str, Any]:
            print(json.dumps([candidates, seconds]), file=asked)
            return dict(json.loads(answers.readline()))

        try:
            yield turn
        finally:
            process.kill()


def _quality(folder: Path) -> dict[str, dict[str, float]]:
    """Returns AUC of the last day by task, of the model and of the trees."""
    from sklearn.metrics import roc_auc_score

    labels = np.load(folder / "trees.npz")["evaluation_labels"]
    files = {"this model": folder / "scores.npy", "LightGBM": folder / "trees-scores.npy"}
    scores = {name: np.load(file) for name, file in files.items() if file.exists()}
    return {
        name: {
            task: float(roc_auc_score(labels[:, number], of[:, number]))
            for number, task in enumerate(read_tasks(folder))
        }
        for name, of in scores.items()
    }


if __name__ == "__main__":
    main()
