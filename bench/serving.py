"""What the server costs: `python -m bench.serving MODEL`.

One client thread sends requests of `rank` to a real server over a socket, with a hot swap to another version in the
middle, and after each one calls the same model with the same arrays in its own process: arrays in, arrays out, both
times, with TensorFlow's own choice of threads. Every answer must be exactly one version's. MODEL is an exported
SavedModel with the signature `rank`.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import tensorflow as tf
from numpy.typing import NDArray

from bench import results
from components.server.client import Client, connect
from schemas.contracts.export import EXTRAS_FOLDER, RANK

Arrays = Mapping[str, NDArray[Any]]
NAME = "ranker"
DEMO_CONTEXT = "user_id,language,tab,recent_posts,network_mbps,hour"
_START_TIMEOUT_S, _TIMEOUT_S = 120, 60
_MOST_P50, _MOST_P99 = 1.3, 1.5
"""The most that a request may take, in calls of the bare model."""
_WARM_CALLS = 20
_NUM_REQUESTS = 8
"""Different ones, sent in turn."""
_WIDTH = 8
"""Values of a list column."""


@dataclass
class Measured:
    """What was measured.

    Attributes:
        request_s: of each request, from arrays to arrays.
        bare_s: of each call without a server.
        answers: number of answers by version.
        errors: requests that failed.
        mixed: answers that are no version's.
    """

    request_s: list[float] = field(default_factory=list)
    bare_s: list[float] = field(default_factory=list)
    answers: dict[int, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    mixed: int = 0


class Bare:
    """A model without a server, in this process."""

    def __init__(self, model: Path):
        self._loaded = tf.saved_model.load(str(model))
        self._call = self._loaded.signatures[RANK]

    @property
    def inputs(self) -> dict[str, Any]:
        return self._call.structured_input_signature[1]

    def __call__(self, arrays: Arrays) -> dict[str, NDArray[Any]]:
        tensors = {name: tf.constant(values) for name, values in arrays.items()}
        return {name: output.numpy() for name, output in self._call(**tensors).items()}


def save_changed(model: Path, folder: Path) -> None:
    """Saves a version that scores otherwise: each of its weights a quarter larger."""
    changed = tf.saved_model.load(str(model))
    for variable in changed.signatures[RANK].variables:
        if variable.dtype.is_floating:
            variable.assign(variable * 1.25)
    tf.saved_model.save(changed, str(folder), signatures=dict(changed.signatures))
    if (model / EXTRAS_FOLDER).exists():
        shutil.copytree(model / EXTRAS_FOLDER, folder / EXTRAS_FOLDER)


def request_for(inputs: Mapping[str, Any], *, context: set[str], candidates: int, seed: int) -> dict[str, NDArray[Any]]:
    """Returns one request: a row for what describes the user, and so many for the others."""
    random, arrays = np.random.default_rng(seed), {}
    for name, spec in inputs.items():
        column = name.removesuffix("_length")
        shape = [1 if column in context else candidates, *[_WIDTH] * (spec.shape.rank - 1)]
        if column != name and column in inputs:
            arrays[name] = np.full(shape, _WIDTH, np.int64)
        elif spec.dtype == tf.string:
            arrays[name] = np.char.add(f"{name}_".encode(), random.integers(0, 1000, shape).astype("S")).astype(object)
        elif spec.dtype.is_integer:
            arrays[name] = random.integers(0, 1000, shape).astype(spec.dtype.as_numpy_dtype)
        else:
            arrays[name] = random.random(shape).astype(spec.dtype.as_numpy_dtype)
    return arrays


@contextmanager
def server(folder: Path, log: Path, *more: str) -> Iterator[tuple[dict[str, str], int]]:
    """Starts a server, with more options; gives its addresses and process number."""
    address_file = log.with_name("address.json")
    options = ["--name", NAME, "--grpc-port", "0", "--rest-port", "0", "--address-file", str(address_file)]
    options += ["--parent-pid", str(os.getpid())]
    command = [sys.executable, "-m", "components.server", str(folder), *options, *more]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        end = time.monotonic() + _START_TIMEOUT_S
        while not address_file.exists():
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the server did not start: {log.read_text()}")
            time.sleep(0.1)
        yield json.loads(address_file.read_text()), process.pid
    finally:
        process.terminate()
        process.wait(_TIMEOUT_S)


def measure(client: Client, models: Mapping[int, Bare], requests: list[Arrays], seconds: float, swap: Any) -> Measured:
    """Sends requests for so many seconds; calls `swap` after half of them."""
    expected = [{version: model(arrays) for version, model in models.items()} for arrays in requests]
    found, bare = Measured(), models[min(models)]
    for number in range(_WARM_CALLS):
        client.predict(RANK, requests[number % len(requests)], _TIMEOUT_S)
        bare(requests[number % len(requests)])
    start, number, is_swapped = time.perf_counter(), 0, False
    while (now := time.perf_counter()) - start < seconds:
        if not is_swapped and now - start > seconds / 2:
            is_swapped = True
            swap()
        arrays = requests[number % len(requests)]
        before = time.perf_counter()
        try:
            answer = client.predict(RANK, arrays, _TIMEOUT_S)
        except Exception as error:  # noqa: BLE001 Whatever it is, it counts.
            found.errors.append(str(error))
            continue
        found.request_s.append(time.perf_counter() - before)
        before = time.perf_counter()
        bare(arrays)
        found.bare_s.append(time.perf_counter() - before)
        versions = [version for version, scores in expected[number % len(requests)].items() if _equal(answer, scores)]
        if len(versions) == 1:
            found.answers[versions[0]] = found.answers.get(versions[0], 0) + 1
        else:
            found.mixed += 1
        number += 1
    return found


def _equal(answer: Arrays, expected: Arrays) -> bool:
    # Two processes may divide a product among their threads in different ways.
    return answer.keys() == expected.keys() and all(
        np.allclose(answer[name], expected[name], rtol=1e-5, atol=1e-6) for name in expected
    )


def told(found: Measured, resident_bytes: tuple[int, int]) -> dict[str, Any]:
    """Returns the numbers, and what they must be."""
    request_ms, bare_ms = (np.percentile(np.array(times) * 1e3, (50, 99)) for times in (found.request_s, found.bare_s))
    ratios = request_ms / bare_ms
    return {
        "requests": len(found.request_s),
        "errors": found.errors,
        "mixed": found.mixed,
        "answers_by_version": found.answers,
        "request_p50_ms": float(request_ms[0]),
        "request_p99_ms": float(request_ms[1]),
        "request_max_ms": max(found.request_s) * 1e3,
        "bare_p50_ms": float(bare_ms[0]),
        "bare_p99_ms": float(bare_ms[1]),
        "bare_max_ms": max(found.bare_s) * 1e3,
        "ratio_p50": float(ratios[0]),
        "ratio_p99": float(ratios[1]),
        "server_resident_mb": [count / 1e6 for count in resident_bytes],
    }


def is_good(numbers: Mapping[str, Any]) -> bool:
    """Whether nothing failed, both versions answered, and a request took at most what is wanted."""
    sound = not numbers["errors"] and not numbers["mixed"] and len(numbers["answers_by_version"]) == 2
    return bool(sound and numbers["ratio_p50"] <= _MOST_P50 and numbers["ratio_p99"] <= _MOST_P99)


def main() -> int:
    """Measures and tells; returns 1 where a request failed or was mixed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="an exported SavedModel")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--candidates", type=int, default=200)
    parser.add_argument(
        "--context",
        default=DEMO_CONTEXT,
        help="columns that have one row for all candidates; left out: the demo's",
    )
    parser.add_argument("--output", type=Path, default=Path("runs/bench-serving.json"), help="all numbers")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as scratch:
        folder = Path(scratch) / "versions"
        shutil.copytree(arguments.model, folder / "1")
        (folder / "1" / "manifest.json").unlink(missing_ok=True)
        save_changed(folder / "1", Path(scratch) / "2")
        models = {number: Bare(path) for number, path in ((1, folder / "1"), (2, Path(scratch) / "2"))}
        context = set(arguments.context.split(","))
        requests = [
            request_for(models[1].inputs, context=context, candidates=arguments.candidates, seed=seed)
            for seed in range(_NUM_REQUESTS)
        ]
        log = Path(scratch) / "server.log"
        with server(folder, log) as (addresses, pid), connect(addresses["grpc"], NAME) as client:
            before = psutil.Process(pid).memory_info().rss
            found = measure(
                client, models, requests, arguments.seconds, lambda: os.rename(Path(scratch) / "2", folder / "2")
            )
            numbers = told(found, (before, psutil.Process(pid).memory_info().rss))
        print(log.read_text(), end="")
    print(json.dumps(numbers, indent=2))
    results.write(arguments.output, numbers)
    return 0 if is_good(numbers) else 1


if __name__ == "__main__":
    sys.exit(main())
