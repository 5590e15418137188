"""How long a rank waits for its input, with data workers on a core of their own.

`python -m bench.input_wait SPEC ROWS OUTPUT`: trains the spec on random rows of its columns, three epochs on one rank,
on the first core; a dispatcher and one data worker have the second. OUTPUT gets `input_wait` of the last epoch, as
training.json has it, and its examples per second, for rows that the worker transforms and for rows transformed before.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.input_rows import Written, ranker_of, write_rows
from schemas.contracts.training_job import TrainJob, write_job
from schemas.spec import RankerSpec, digest
from schemas.spec.input import Where
from trainer_module.launch.rendezvous import Rendezvous

_EPOCHS = 3
_WHERE: tuple[Where, ...] = ("in_pool", "ahead")


def main(spec: str, rows: str, output: str) -> None:
    """Writes the shares."""
    of_rank, of_pool = sorted(os.sched_getaffinity(0))[:2]
    ranker = ranker_of(spec)
    training = ranker.training.model_copy(update={"epochs": _EPOCHS, "early_stopping": None})
    cluster = ranker.cluster.model_copy(update={"ranks": 1, "data_workers": 1})
    ranker = ranker.model_copy(update={"training": training, "cluster": cluster})
    found: dict[str, Any] = {"spec": spec, "rows": int(rows)}
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as directory:
        folder = Path(directory)
        written = write_rows(ranker, folder, int(rows))
        with _pool(folder, of_pool) as service:
            for where in _WHERE:
                found[where] = _trained(
                    _job(folder / f"job-{where}", ranker, written, where, int(rows)), service, of_rank
                )
    text = json.dumps(found, indent=2)
    Path(output).write_text(text + "\n")
    print(text)


@contextmanager
def _pool(folder: Path, core: int) -> Iterator[str]:
    """Runs a dispatcher and a worker; gives the dispatcher's address."""
    with (
        _served(folder / "dispatcher", core, "dispatcher") as dispatcher,
        _served(folder / "worker", core, "worker", "--dispatcher", dispatcher),
    ):
        yield dispatcher


@contextmanager
def _served(address: Path, core: int, *role: str) -> Iterator[str]:
    module = [sys.executable, "-m", "trainer_module.launch.data_service", *role]
    process = _started([*module, "--address-file", str(address), "--parent-pid", str(os.getpid())], core)
    try:
        while not address.exists():
            if process.poll() is not None:
                raise RuntimeError(f"bench: the {role[0]} ended (got exit status {process.returncode})")
            time.sleep(0.1)
        yield address.read_text()
    finally:
        process.kill()
        process.wait()


def _job(folder: Path, ranker: RankerSpec, written: Written, where: Where, rows: int) -> TrainJob:
    for name in ("output", "checkpoints", "logs"):
        (folder / name).mkdir(parents=True)
    job = TrainJob(
        ranker=ranker,
        spec_digest=digest(ranker),
        transform=where,
        train_files=written.files[where],
        num_train_examples=rows,
        transform_graph=written.graph,
        model_dir="",
        output_dir=str(folder / "output"),
        final_checkpoint=str(folder / "final"),
        checkpoint_dir=str(folder / "checkpoints"),
        log_dir=str(folder / "logs"),
    )
    write_job(folder / "job.json", job)
    return job


def _trained(job: TrainJob, service: str, core: int) -> dict[str, float]:
    """Returns what the report says of the last epoch."""
    file = Path(job.log_dir).parent / "job.json"
    with Rendezvous(1) as rendezvous:
        arguments = [str(file), str(os.getpid()), service, file.parent.name]
        rank = _started([sys.executable, "-m", "trainer_module", *arguments], core, rendezvous.environment(0))
        if rank.wait():
            raise RuntimeError(f"bench: the rank ended (got exit status {rank.returncode})")
    last = json.loads(job.report_file.read_text())["epochs"][-1]
    return {"input_wait": last["input_wait"], "examples_per_s": round(last["examples"] / last["seconds"])}


def _started(command: list[str], core: int, environment: dict[str, str] | None = None) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        command,
        env={**os.environ, **(environment or {})},
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
