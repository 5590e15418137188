"""Examples per second from a standing input service of one worker and of two, where the workers are what is slow.

`python -m bench.input_service SPEC ROWS SLEEP_MS OUTPUT`: the workers sleep in the map of every batch, so that a second
worker needs no second core. One client reads epochs from the one service and the other in turn, and trains on none.
OUTPUT gets the rates of all epochs, from the request to the last batch, and the ratio of the medians.
"""

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python.data.experimental.ops import testing

from bench.input_rows import ranker_of, write_rows
from schemas.spec import RankerSpec
from trainer_module.input.example_reader import ExampleReader, transformed_reader
from trainer_module.input.service_reader import PoolEpoch, training_parts
from trainer_module.input.train_input import no_batches

_EPOCHS = 3
_SHARES = 2
"""Into which the files are cut, for either service."""
_START_S = 120


def main(spec: str, rows: str, sleep_ms: str, output: str) -> None:
    """Writes the rates."""
    ranker = ranker_of(spec)
    cluster = ranker.cluster.model_copy(update={"ranks": 1, "data_workers": _SHARES})
    ranker = ranker.model_copy(update={"cluster": cluster})
    rates: dict[int, list[float]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as directory:
        folder = Path(directory)
        files = write_rows(ranker, folder, int(rows)).files["ahead"]
        reader = _slowed(transformed_reader(ranker), float(sleep_ms))
        with _service(folder / "one", 1) as one, _service(folder / "two", 2) as two:
            for epoch in range(1 + _EPOCHS):
                for workers, service in ((1, one), (2, two)):
                    rate = _rate(ranker, files, reader, service, epoch)
                    if epoch > 0:  # The first one warms up.
                        rates[workers].append(round(rate))
    ratio = statistics.median(rates[2]) / statistics.median(rates[1])
    found = {"spec": spec, "rows": int(rows), "sleep_ms": float(sleep_ms), "examples_per_s": rates, "ratio": ratio}
    text = json.dumps(found, indent=2)
    Path(output).write_text(text + "\n")
    print(text)


def _slowed(reader: ExampleReader, sleep_ms: float) -> ExampleReader:
    def batch_of(rows: Any) -> Any:
        awake = tf.data.Dataset.range(1).apply(testing.sleep(int(1000 * sleep_ms))).get_single_element()
        with tf.control_dependencies([awake]):
            return tf.nest.map_structure(tf.identity, reader.batch_of(rows))

    return ExampleReader(reader.table, batch_of)


def _rate(ranker: RankerSpec, files: Sequence[str], reader: ExampleReader, service: str, epoch: int) -> float:
    started, examples = time.monotonic(), 0
    parts, batch_size = training_parts(ranker, files, epoch), ranker.training.batch_size_per_rank
    name = f"epoch-{epoch}"
    for batch in PoolEpoch(reader, parts, batch_size, service=service, name=name, trained=no_batches()):
        examples += int(batch["floats"].shape[0])
    return examples / (time.monotonic() - started)


@contextmanager
def _service(folder: Path, workers: int) -> Iterator[str]:
    """Runs a service; gives its address."""
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"localhost:{port}"
    commands = [["dispatcher", "--work-dir", str(folder / "work"), "--port", str(port)]]
    commands += [["worker", "--dispatcher", address, "--patience-s", str(_START_S)]] * workers
    logs = [folder / f"{number}.log" for number in range(len(commands))]
    processes = [_started(command, log) for command, log in zip(commands, logs, strict=True)]
    try:
        given_up = time.monotonic() + _START_S
        while not all("serving at" in log.read_text() for log in logs):
            if time.monotonic() > given_up:
                raise RuntimeError(f"bench: the service did not start (got {logs[-1].read_text()[-1000:]})")
            time.sleep(0.1)
        yield address
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _started(command: Sequence[str], log: Path) -> "subprocess.Popen[bytes]":
    with log.open("wb") as file:
        sangam = [sys.executable, "-m", "pipelines.cli", "input-service", *command]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        return subprocess.Popen(sangam, stdout=file, stderr=subprocess.STDOUT, env=environment)


if __name__ == "__main__":
    main(*sys.argv[1:])
