"""Latency of a server over that of the bare model: `python -m bench.serving MODEL`.

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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from bench import results
from bench.demo import CONTEXT
from sangam.components.load.signature import Arrays, Input, random_request
from sangam.components.server.client import Client, connect
from sangam.schemas.contracts.export import EXTRAS_FOLDER, RANK

NAME = "ranker"
DEMO_CONTEXT = ",".join(CONTEXT)
_START_TIMEOUT_S, _TIMEOUT_S = 120, 60
_MOST_P50, _MOST_P99 = 1.3, 1.5
"""Bounds of a request's time over that of a bare call."""
_WARM_CALLS, _NUM_REQUESTS = 20, 8


@dataclass
class Measured:
    """Times and answers.

    Attributes:
        request_s: seconds of each request, from arrays to arrays.
        bare_s: seconds of each call without a server.
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
        self.inputs: dict[str, Any] = self._call.structured_input_signature[1]

    def __call__(self, arrays: Arrays) -> dict[str, NDArray[Any]]:
        tensors = {name: tf.constant(values) for name, values in arrays.items()}
        return {name: output.numpy() for name, output in self._call(**tensors).items()}


def save_changed(model: Path, folder: Path) -> None:
    """Saves a version with other scores: each of its weights a quarter larger."""
    changed = tf.saved_model.load(str(model))
    for variable in changed.signatures[RANK].variables:
        if variable.dtype.is_floating:
            variable.assign(variable * 1.25)
    tf.saved_model.save(changed, str(folder), signatures=dict(changed.signatures))
    if (model / EXTRAS_FOLDER).exists():
        shutil.copytree(model / EXTRAS_FOLDER, folder / EXTRAS_FOLDER)


def request_for(inputs: Mapping[str, tf.TensorSpec], *, context: set[str], candidates: int, seed: int) -> Arrays:
    """Returns a random request for a loaded signature, as `sangam load` makes it; columns of `context` have one row."""
    described = {
        name: Input(np.object_ if spec.dtype == tf.string else spec.dtype.as_numpy_dtype, spec.shape.rank == 2)
        for name, spec in inputs.items()
    }
    return random_request(described, once=context, candidates=candidates, seed=seed)


@contextmanager
def server(folder: Path, log: Path, *more: str) -> Iterator[tuple[dict[str, str], int]]:
    """Starts a server, with more options; yields its addresses and process number."""
    address_file = log.with_name("address.json")
    options = ["--name", NAME, "--grpc-port", "0", "--rest-port", "0", "--address-file", str(address_file)]
    command = [
        sys.executable,
        "-m",
        "sangam.components.server",
        str(folder),
        *options,
        "--parent-pid",
        str(os.getpid()),
    ]
    with log.open("wb") as output:
        process = subprocess.Popen([*command, *more], stdout=output, stderr=output)
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


def is_close(answer: Arrays, expected: Arrays) -> bool:
    """Whether two answers have the same scores; two processes may add up products in another order."""
    return answer.keys() == expected.keys() and all(
        np.allclose(answer[name], expected[name], rtol=1e-5, atol=1e-6) for name in expected
    )


def measure(
    client: Client, models: Mapping[int, Bare], requests: list[Arrays], seconds: float, swap: Callable[[], None]
) -> Measured:
    """Sends requests for so many seconds; calls `swap` after half of them."""
    expected = [{version: model(arrays) for version, model in models.items()} for arrays in requests]
    found, bare, is_swapped = Measured(), models[min(models)], False
    for number in range(_WARM_CALLS):
        client.predict(RANK, requests[number % len(requests)], _TIMEOUT_S)
        bare(requests[number % len(requests)])
    start, number = time.perf_counter(), 0
    while (now := time.perf_counter()) - start < seconds:
        if not is_swapped and now - start > seconds / 2:
            is_swapped = True
            swap()
        place, number = number % len(requests), number + 1
        before = time.perf_counter()
        try:
            answer = client.predict(RANK, requests[place], _TIMEOUT_S)
        except Exception as error:  # noqa: BLE001 Whatever it is, it counts.
            found.errors.append(str(error))
            continue
        answered = time.perf_counter()
        bare(requests[place])
        found.request_s.append(answered - before)
        found.bare_s.append(time.perf_counter() - answered)
        versions = [version for version, scores in expected[place].items() if is_close(answer, scores)]
        if len(versions) == 1:
            found.answers[versions[0]] = found.answers.get(versions[0], 0) + 1
        else:
            found.mixed += 1
    return found


def summary(found: Measured) -> dict[str, Any]:
    """Returns percentiles, their ratios, and whether nothing failed, both versions answered and the bounds hold."""
    numbers: dict[str, Any] = {"requests": len(found.request_s), "answers_by_version": found.answers}
    for name, times in (("request", found.request_s), ("bare", found.bare_s)):
        for what, share in (("p50", 50), ("p99", 99), ("max", 100)):
            numbers[f"{name}_{what}_ms"] = float(np.percentile(times, share) * 1e3)
    ratios = [numbers[f"request_{what}_ms"] / numbers[f"bare_{what}_ms"] for what in ("p50", "p99")]
    is_sound = not found.errors and not found.mixed and len(found.answers) == 2
    numbers |= {"errors": found.errors, "mixed": found.mixed, "ratio_p50": ratios[0], "ratio_p99": ratios[1]}
    return numbers | {"is_good": is_sound and ratios[0] <= _MOST_P50 and ratios[1] <= _MOST_P99}


def main() -> int:
    """Measures and prints; returns 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="an exported SavedModel")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--candidates", type=int, default=200)
    parser.add_argument("--context", default=DEMO_CONTEXT, help="columns with one row for all candidates")
    parser.add_argument("--output", type=Path, default=Path("runs/bench-serving.json"), help="all numbers")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as scratch:
        folder, second = Path(scratch) / "versions", Path(scratch) / "2"
        shutil.copytree(arguments.model, folder / "1", ignore=shutil.ignore_patterns("manifest.json"))
        save_changed(folder / "1", second)
        models = {number: Bare(path) for number, path in ((1, folder / "1"), (2, second))}
        shape = {"context": set(arguments.context.split(",")), "candidates": arguments.candidates}
        requests = [request_for(models[1].inputs, seed=seed, **shape) for seed in range(_NUM_REQUESTS)]
        log = Path(scratch) / "server.log"
        with server(folder, log) as (addresses, _), connect(addresses["grpc"], NAME) as client:
            found = measure(client, models, requests, arguments.seconds, lambda: os.rename(second, folder / "2"))
        print(log.read_text(), end="")
    numbers = summary(found)
    print(json.dumps(numbers, indent=1))
    results.write(arguments.output, numbers)
    return 0 if numbers["is_good"] else 1


if __name__ == "__main__":
    sys.exit(main())
