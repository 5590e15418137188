"""A worker of a tf.data service pool, as a process of its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.trainer_module.launch import warm
from tests.trainer_module.launch.launched_job import wait_until


@contextmanager
def data_worker(folder: Path, dispatcher: str) -> Iterator[None]:
    """Runs a worker; kills it in the end."""
    process, _ = start_data_worker(folder, dispatcher)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def start_data_worker(folder: Path, dispatcher: str, port: str = "0") -> tuple[warm.Warm, str]:
    """Starts a worker; returns it and its port, on which one that comes in its place must serve."""
    folder.mkdir()
    file = folder / "address"
    manners = ["--address-file", str(file), "--dispatcher", dispatcher, "--port", port]
    worker = warm.start(["sangam.trainer_module.launch.data_service", "worker", *manners], folder / "log")
    wait_until(file.exists, 120, "the worker serves")
    return worker, file.read_text().rpartition(":")[2]
