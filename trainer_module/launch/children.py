"""Child processes of a training job: start, exit codes and logs."""

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import psutil

from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.host import gpus
from sangam.schemas.host.cgroup import OomWatch, OutOfMemory
from sangam.schemas.host.files import tail
from sangam.trainer_module.launch.failures import Cause, JobFailedError
from sangam.trainer_module.launch.nursery import FORKED, Forked, Nursery

_LOG = logging.getLogger(__name__)
_GRACE_S = 5.0
_TAIL_LINES = 25

# stderr of a process goes to a file; TensorFlow's start-up messages would hide errors.
_ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_USE_LEGACY_KERAS": "1",
    "PYTHONUNBUFFERED": "1",
    # Files and logs are UTF-8, whatever the locale.
    "PYTHONUTF8": "1",
}
_SECTIONS = {"export": "coordinator", "parameter-server": "parameter_server"}
"""The launcher's pod setting with a process's memory limit, by prefix of the process name."""
_MIB = 1 << 20
ALLOCATOR = {
    # TensorFlow's own allocator keeps freed memory: every copy of the rows would stay resident (docs/planning.md).
    "TF_ONEDNN_USE_SYSTEM_ALLOCATOR": "1",
    # By default glibc returns a step's larger buffers to the kernel after each step, and the next step faults zeroed
    # pages in again: 5 % of a step (ADR 0012). Rows exceed the threshold, and are still returned.
    "MALLOC_MMAP_THRESHOLD_": str(32 * _MIB),
    "MALLOC_TRIM_THRESHOLD_": str(512 * _MIB),
    "MALLOC_TOP_PAD_": str(64 * _MIB),
    # Pages of 2 MiB if the kernel has them on demand (`madvise`): 6 % of a step (ADR 0012).
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
"""Allocator settings of the job's processes; the environment overrides them."""


def environment_of_all() -> dict[str, str]:
    """Returns the environment shared by all processes of a job; ranks show the GPUs that it hides."""
    environment = {**ALLOCATOR, **os.environ, **_ENVIRONMENT}
    gpus.hide(environment)
    return environment


class Child:
    """A process of the job, with its log."""

    def __init__(
        self,
        job: TrainJob,
        name: str,
        arguments: Sequence[str],
        environment: Mapping[str, str] | None = None,
        *,
        host_suffix: str = "",
        nursery: Nursery | None = None,
    ):
        """Starts `python -m ...`.

        Args:
            job: the job; has the log folder.
            name: name of the process and its log.
            arguments: module and arguments.
            environment: added to this process's environment.
            host_suffix: suffix of the name in errors, if there are several hosts.
            nursery: forks the process if it can; None: start a new interpreter.
        """
        self.name, self._called = name, f"{name}{host_suffix}"
        self.log = Path(job.log_dir) / f"{name}.log"
        self._oom_watch = OomWatch()
        self._nursery = nursery
        with self.log.open("ab") as log:
            self._began = self._shown = log.tell()
            forked = None
            if nursery is not None and arguments[0] in FORKED:
                forked = nursery.start(arguments, environment or {}, self.log)
                if forked is None:
                    _LOG.warning("starting name=%s by itself: %s", name, nursery.last_words())
            self._process: subprocess.Popen[bytes] | Forked = forked or subprocess.Popen(
                [sys.executable, "-m", *arguments],
                env={**environment_of_all(), **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        _LOG.info("started name=%s pid=%d forked=%s", name, self._process.pid, forked is not None)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def exit_code(self) -> int | None:
        """Returns the exit code, None while it runs; negative: ended by that signal."""
        return self._process.poll()

    def is_stopped(self) -> bool:
        """Returns whether the process lives but is stopped, as after SIGSTOP."""
        if self._process.poll() is not None:
            return False
        return bool(psutil.Process(self._process.pid).status() == psutil.STATUS_STOPPED)

    def show(self) -> None:
        """Copies new lines of the log to this process's output."""
        with self.log.open("rb") as log:
            log.seek(self._shown)
            new = log.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._shown += len(whole)
        for line in whole.decode(errors="replace").splitlines():
            print(f"[{self.name}] {line}", flush=True)

    def terminate(self) -> None:
        """Sends SIGTERM."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def reap(self, seconds: float) -> None:
        """Waits for the process to end; sends SIGKILL after `seconds`."""
        try:
            self._process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    def failed(self, how: str = "") -> JobFailedError:
        """Returns the error for a process that hangs, failed, or ended too early.

        Args:
            how: the symptom, if the process hangs; empty if it has ended.
        """
        code = self.exit_code() or 0
        if code == -signal.SIGKILL and (out_of_memory := self._oom_watch.out_of_memory()):
            return self._starved(out_of_memory)
        ended = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        text = f"training: {self._called} {how or ended}; {self._last_words()}"
        called = self._called.replace("-", " ")
        if how:
            return JobFailedError("hung", text, f"{called} hangs")
        brief = f"{called} lost (signal {-code})" if code < 0 else f"{called} failed (exit code {code})"
        # An export that fails will fail again; only a killed one is retried.
        return JobFailedError("killed" if code < 0 else "export" if self.name == "export" else "ended", text, brief)

    def _last_words(self) -> str:
        """Returns the end of the output of this process, not of an earlier one with its name."""
        if said := tail(self.log, _TAIL_LINES, start=self._began):
            return f"the end of {self.log}:\n{said}"
        if self._nursery is None:
            return f"it wrote nothing to {self.log}"
        # Forked, it may have ended before it had a log; the process that forks may have ended too.
        return f"it wrote nothing to {self.log}; {self._nursery.last_words()}"

    def _starved(self, out_of_memory: OutOfMemory) -> JobFailedError:
        """Returns the error for a process killed for lack of memory; its log does not contain the reason."""
        section = next((part for start, part in _SECTIONS.items() if self.name.startswith(start)), "host")
        text = (
            f"training: {self._called} {out_of_memory}; give it more (in pods: cluster.launcher.{section}.memory), or "
            f"lower capacity.rows, dim or batch_size_per_rank, see `sangam plan`. Log: {self.log}"
        )
        # Memory use by others changes; a limit does not.
        cause: Cause = "memory" if out_of_memory.limit_bytes else "killed"
        return JobFailedError(cause, text, f"{self._called.replace('-', ' ')} ran out of memory")


def end(children: Iterable[Child], grace_s: float = _GRACE_S) -> None:
    """Ends processes with SIGTERM, then SIGKILL after a grace period."""
    children = list(children)
    for child in children:
        child.terminate()
    given_up = time.monotonic() + grace_s
    for child in children:
        child.reap(given_up - time.monotonic())
