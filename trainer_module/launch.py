"""Runs one training job on this machine: `python -m trainer_module.launch JOB_FILE PARENT_PID`.

Starts the tf.data service pool and the ranks, watches them, then exports, each as processes of this one's process
group, so that one signal to the group ends them all. When a process is lost, all are started again and go on from the
last checkpoint. What went wrong in the end is left in `failure.txt` in the log folder.
"""

import json
import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

from schemas.errors import UserError
from schemas.plan import refuse_unfit
from trainer_module.checkpoint.manifest import MANIFEST, read_manifest
from trainer_module.children import Child, JobFailedError, Watch
from trainer_module.job import TrainJob, read_job
from trainer_module.memory import available_bytes
from trainer_module.processes import end_with_parent
from trainer_module.rendezvous import Rendezvous

_LOG = logging.getLogger("trainer_module.launch")
_POLL_S = 0.2
_START_S = 120.0
FAILURE_FILE = "failure.txt"


class Stopped(BaseException):
    """SIGTERM has come."""


def run(job_file: Path, job: TrainJob) -> None:
    """Trains and exports; goes on from the last checkpoint, up to `cluster.retries` times, when a process is lost.

    Raises:
        JobFailedError: with the reason; no process of the job is left.
    """
    watch = Watch(job)
    # stderr of a rank is a file; TensorFlow's start-up chatter would bury what matters.
    environment = {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_USE_LEGACY_KERAS": "1", "PYTHONUNBUFFERED": "1"}
    # TensorFlow's own allocator keeps what was freed: every copy of the rows would stay resident (docs/planning.md).
    environment["TF_ONEDNN_USE_SYSTEM_ALLOCATOR"] = "1"
    retries = job.ranker.cluster.retries
    for attempt in range(retries + 1):
        try:
            if not _is_trained(job):
                _train(job_file, job, environment, watch)
            _export(job_file, job, environment, watch)
            return
        except JobFailedError as error:
            if attempt == retries or not error.may_retry:
                raise
            # An export that was killed in its last moment has left a model, and the next one does not replace it.
            shutil.rmtree(job.model_dir, ignore_errors=True)
            _LOG.warning("retry=%d of=%d after: %s", attempt + 1, retries, error)
            with job.progress_file.open("a") as file:
                line = {"retry": attempt + 1, "of": retries, "reason": str(error).splitlines()[0]}
                file.write(json.dumps(line) + "\n")


def _is_trained(job: TrainJob) -> bool:
    """Returns whether an earlier attempt has done all but the export."""
    final = Path(job.final_checkpoint)
    return job.report_file.exists() and (final / MANIFEST).exists() and read_manifest(final).job_digest == job.digest


def _train(job_file: Path, job: TrainJob, environment: Mapping[str, str], watch: Watch) -> None:
    cluster = job.ranker.cluster
    for rank in range(cluster.ranks):
        # Of an earlier attempt they would count for this one.
        job.heartbeat_file(rank).unlink(missing_ok=True)
        job.mistake_file(rank).unlink(missing_ok=True)
    with ExitStack() as stack:
        rendezvous = stack.enter_context(Rendezvous(cluster.ranks))
        service, pool = _start_pool(job, environment, stack, watch)
        ranks = []
        for rank in range(cluster.ranks):
            arguments = ["trainer_module", str(job_file), str(os.getpid()), service]
            own = {**environment, **rendezvous.environment(rank), "OMP_NUM_THREADS": str(cluster.threads_per_rank)}
            ranks.append(_started(Child(job, f"rank-{rank}", arguments, own), stack))
        try:
            _wait_for(ranks, pool, watch)
        except JobFailedError as error:
            raise _mistake(job, stack) or error from error


def _mistake(job: TrainJob, stack: ExitStack) -> JobFailedError | None:
    """Returns the mistake that a rank has found, if that is why the ranks have ended."""
    stack.close()  # the ranks first end, so that whoever found it has said so
    files = [job.mistake_file(rank) for rank in range(job.ranker.cluster.ranks)]
    return next((JobFailedError(file.read_text()) for file in files if file.exists()), None)


def _export(job_file: Path, job: TrainJob, environment: Mapping[str, str], watch: Watch) -> None:
    with ExitStack() as stack:
        export = Child(job, "export", ["trainer_module.export", str(job_file), str(os.getpid())], environment)
        _wait_for([_started(export, stack)], [], watch)


def _started(child: Child, stack: ExitStack) -> Child:
    stack.callback(child.stop)
    return child


def _start_pool(
    job: TrainJob, environment: Mapping[str, str], stack: ExitStack, watch: Watch
) -> tuple[str, list[Child]]:
    """Starts the tf.data service; returns the dispatcher's host:port ("" without a pool) and the processes."""
    if job.ranker.cluster.data_workers == 0:
        return "", []
    parent = ["--parent-pid", str(os.getpid())]

    def start(name: str, role: str, *more: str) -> tuple[Child, Path]:
        address = Path(job.log_dir) / f"{name}.address"
        address.unlink(missing_ok=True)
        arguments = ["trainer_module.data_service", role, *parent, "--address-file", str(address), *more]
        return _started(Child(job, name, arguments, environment), stack), address

    dispatcher, address_file = start("dispatcher", "dispatcher")
    address = _address(dispatcher, address_file, watch)
    names = [f"data-worker-{number}" for number in range(job.ranker.cluster.data_workers)]
    workers = [start(name, "worker", "--dispatcher", address) for name in names]
    for worker, worker_file in workers:
        _address(worker, worker_file, watch)
    return address, [dispatcher, *(worker for worker, _ in workers)]


def _address(child: Child, file: Path, watch: Watch) -> str:
    given_up = time.monotonic() + _START_S
    while not file.exists():
        if child.exit_code() is not None:
            raise child.failure()
        if time.monotonic() > given_up:
            raise JobFailedError(
                f"training: {child.name} did not start in {_START_S:.0f} s; see {child.log}", may_retry=True
            )
        watch.check_deadline()
        time.sleep(_POLL_S)
    return file.read_text()


def _wait_for(workers: Sequence[Child], pool: Sequence[Child], watch: Watch) -> None:
    """Waits until all workers have ended well; the pool must outlive them."""
    while True:
        codes = [child.exit_code() for child in workers]
        failed = [child for child, code in zip(workers, codes, strict=True) if code]
        if failed:
            raise _first_cause(failed).failure()
        if all(code == 0 for code in codes):
            return
        for child in pool:
            if child.exit_code() is not None:
                raise child.failure()
        watch.check_deadline()
        watch.check_heartbeats([child for child in workers if child.name.startswith("rank-")])
        time.sleep(_POLL_S)


def _first_cause(failed: Sequence[Child]) -> Child:
    """Returns the process that failed by itself rather than because a peer did: the one with the oldest last word."""
    killed = [child for child in failed if (child.exit_code() or 0) < 0]
    return min(killed or failed, key=lambda child: child.log.stat().st_mtime)


def main(job_file: str, parent_pid: str) -> int:
    """Runs a job file; returns the exit code."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise Stopped

    signal.signal(signal.SIGTERM, stop)
    end_with_parent(int(parent_pid), signal.SIGTERM)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    job = read_job(Path(job_file))
    _LOG.info("start spec_digest=%s", job.spec_digest)
    for directory in (job.log_dir, job.output_dir, job.checkpoint_dir, Path(job.final_checkpoint).parent):
        Path(directory).mkdir(parents=True, exist_ok=True)
    try:
        refuse_unfit(job.ranker, available_bytes())
        run(Path(job_file), job)
    except (JobFailedError, UserError) as error:
        (Path(job.log_dir) / FAILURE_FILE).write_text(str(error))
        _LOG.error("%s", error)
        return 1
    except Stopped:
        _LOG.info("stopped by SIGTERM")
        return 128 + signal.SIGTERM
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
