"""Processes of a measurement: started, watched and ended together."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from sangam.trainer_module.launch.rendezvous import Rendezvous

_TIMEOUT_S, _POLL_S = 600, 0.05


@dataclass(frozen=True)
class Process:
    """A process to start.

    Attributes:
        command: `python -m` this.
        environment: on top of this process's.
        python: the interpreter.
        cores: cores that it may run on; empty: those of this process.
        prefix: command that runs the interpreter, as `ip netns exec NAME`.
    """

    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    python: str = sys.executable
    cores: frozenset[int] = frozenset()
    prefix: Sequence[str] = ()

    def start(self, log: Path) -> "subprocess.Popen[bytes]":
        """Starts it with its output in `log`."""
        with log.open("wb") as file:
            process = subprocess.Popen(
                [*self.prefix, self.python, "-W", "ignore", "-m", *self.command],
                env={**os.environ, **self.environment},
                stdout=file,
                stderr=file,
            )
        if self.cores:
            os.sched_setaffinity(process.pid, self.cores)
        return process


def cores() -> list[int]:
    """Returns the cores that this process may use."""
    return sorted(os.sched_getaffinity(0))


def ranks_of(command: Sequence[str], ranks: int, environment: Mapping[str, str], stack: ExitStack) -> list[Process]:
    """Returns ranks that find each other by a rendezvous, which the stack ends."""
    if ranks == 1:
        return [Process(command, environment)]
    rendezvous = stack.enter_context(Rendezvous(ranks))
    return [Process(command, {**environment, **rendezvous.environment(rank)}) for rank in range(ranks)]


def run(processes: Sequence[Process], logs: Path, *, beside: Sequence[Process] = ()) -> None:
    """Runs processes together and waits for all.

    Args:
        processes: end by themselves.
        logs: folder.
        beside: run meanwhile and are ended then.

    Raises:
        SystemExit: with the end of a log, when a process fails or is not done in time.
    """
    started = [
        (each, log, each.start(log)) for n, each in enumerate([*beside, *processes]) for log in [logs / f"{n}.log"]
    ]
    until = time.monotonic() + _TIMEOUT_S
    try:
        while any(process.poll() is None for _, _, process in started[len(beside) :]):
            _refuse_failed(started)
            if time.monotonic() > until:
                raise SystemExit(f"bench: {' '.join(processes[0].command)}: not done after {_TIMEOUT_S} s")
            time.sleep(_POLL_S)
        _refuse_failed(started)
    finally:
        for _, _, process in started:
            process.kill()
            process.wait()


def _refuse_failed(started: Sequence[tuple[Process, Path, "subprocess.Popen[bytes]"]]) -> None:
    for each, log, process in started:
        if process.poll():
            text = log.read_text(errors="replace")[-3000:]
            raise SystemExit(f"bench: {' '.join(each.command)}: ended with {process.returncode}:\n{text}")
