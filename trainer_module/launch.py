"""Runs one training job on this machine: `python -m trainer_module.launch JOB_FILE PARENT_PID`.

Starts the tf.data service pool and the ranks, watches them, then exports, each as processes of this one's process
group, so that one signal to the group ends them all. What went wrong is left in `failure.txt` in the log folder.
"""

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

from trainer_module.job import TrainJob, read_job
from trainer_module.processes import end_with_parent, tail
from trainer_module.rendezvous import Rendezvous

_LOG = logging.getLogger("trainer_module.launch")
_POLL_S = 0.2
_START_S = 120.0
_GRACE_S = 5.0
FAILURE_FILE = "failure.txt"


class JobFailedError(RuntimeError):
    """The job cannot go on; the text says which process, why, and the end of its log."""


class Stopped(BaseException):
    """SIGTERM has come."""


class Child:
    """A process of the job, with its log."""

    def __init__(
        self, job: TrainJob, name: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None
    ):
        self.name = name
        self.log = Path(job.log_dir) / f"{name}.log"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        _LOG.info("started name=%s pid=%d", name, self._process.pid)

    def exit_code(self) -> int | None:
        """Returns how the process ended, None while it runs; negative: by that signal."""
        return self._process.poll()

    def stop(self) -> None:
        """Ends the process: SIGTERM, and SIGKILL for one that does not listen."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def failure(self) -> JobFailedError:
        """Returns the error for a process that has ended when it should not have, or badly."""
        code = self.exit_code()
        how = f"was ended by {signal.Signals(-code).name}" if code and code < 0 else f"ended with code {code}"
        return JobFailedError(f"training: {self.name} {how}; the end of {self.log}:\n{tail(self.log)}")


class Watch:
    """Deadline and heartbeats of a job."""

    def __init__(self, job: TrainJob):
        self._job = job
        self._cluster = job.ranker.cluster
        self._started = time.monotonic()

    def check_deadline(self) -> None:
        """Raises when the job has taken too long."""
        if time.monotonic() - self._started > self._cluster.deadline_s:
            raise JobFailedError(
                f"training: not done after {self._cluster.deadline_s} s; raise cluster.deadline_s, or train on less"
            )

    def check_heartbeats(self, ranks: Sequence[Child]) -> None:
        """Raises when a rank has not made progress for too long."""
        for number, child in enumerate(ranks):
            if child.exit_code() is not None:
                continue
            beat = self._job.heartbeat_file(number)
            last = beat.stat().st_mtime if beat.exists() else child.log.stat().st_ctime
            silent_s = time.time() - last
            if silent_s > self._cluster.heartbeat_timeout_s:
                raise JobFailedError(
                    f"training: {child.name} has made no progress for {silent_s:.0f} s (cluster.heartbeat_timeout_s is "
                    f"{self._cluster.heartbeat_timeout_s}); the end of {child.log}:\n{tail(child.log)}"
                )


def run(job_file: Path, job: TrainJob) -> None:
    """Trains and exports.

    Raises:
        JobFailedError: with the reason; no process of the job is left.
    """
    watch = Watch(job)
    # stderr of a rank is a file; TensorFlow's start-up chatter would bury what matters.
    environment = {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_USE_LEGACY_KERAS": "1", "PYTHONUNBUFFERED": "1"}
    threads = str(job.ranker.cluster.threads_per_rank)
    with ExitStack() as stack:
        rendezvous = stack.enter_context(Rendezvous(job.ranker.cluster.ranks))
        service, pool = _start_pool(job, environment, stack, watch)
        ranks = []
        for rank in range(job.ranker.cluster.ranks):
            arguments = ["trainer_module", str(job_file), str(os.getpid()), service]
            own = {**environment, **rendezvous.environment(rank), "OMP_NUM_THREADS": threads}
            ranks.append(_started(Child(job, f"rank-{rank}", arguments, own), stack))
        _wait_for(ranks, pool, watch)
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
            raise JobFailedError(f"training: {child.name} did not start in {_START_S:.0f} s; see {child.log}")
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
    for directory in (Path(job.log_dir), Path(job.output_dir), job.state_dir):
        directory.mkdir(parents=True, exist_ok=True)
    try:
        run(Path(job_file), job)
    except JobFailedError as error:
        (Path(job.log_dir) / FAILURE_FILE).write_text(str(error))
        _LOG.error("%s", error)
        return 1
    except Stopped:
        _LOG.info("stopped by SIGTERM")
        return 128 + signal.SIGTERM
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
