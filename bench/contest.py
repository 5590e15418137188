"""Runs ranks of contestants as fresh processes, one contestant at a time, and compares them within each repeat."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.contestants import CONTESTANTS
from bench.workload import BATCH_SIZE_PER_RANK
from trainer_module.launch.children import ALLOCATOR
from trainer_module.launch.rendezvous import Rendezvous

AS_LAUNCHED = {"OMP_NUM_THREADS": "1", **ALLOCATOR}
"""What the launcher of training jobs sets for a rank; every contestant runs with it."""
_TIMEOUT_S = 600


@dataclass(frozen=True)
class Result:
    """What one run of a contestant gave.

    Attributes:
        ranks: processes of one thread, each on a core of its own.
        step_s: of every measured step of rank 0.
        cpu_s: of rank 0, for each step.
        losses: summed over the tasks: of the last step of the first pass over the data, and of the second.
        page_faults: of rank 0 that needed no disk, for each step.
        peak_bytes: the most memory that rank 0 has held.
    """

    ranks: int
    step_s: tuple[float, ...]
    cpu_s: float
    losses: tuple[float, ...]
    page_faults: float = 0.0
    peak_bytes: float = 0.0

    @property
    def median_s(self) -> float:
        """Of the measured steps."""
        return statistics.median(self.step_s)

    @property
    def examples_per_s(self) -> float:
        """Of all ranks together."""
        return self.ranks * BATCH_SIZE_PER_RANK / self.median_s


@dataclass(frozen=True)
class Ratio:
    """Of two speeds, one for each repeat: both were measured within minutes of each other."""

    median: float
    least: float
    most: float


def ratio(faster: Sequence[Result], slower: Sequence[Result]) -> Ratio:
    """Returns how many times the examples per second of `slower` those of `faster` are, repeat by repeat."""
    ratios = [a.examples_per_s / b.examples_per_s for a, b in zip(faster, slower, strict=False)]
    return Ratio(statistics.median(ratios), min(ratios), max(ratios))


def compete(
    name: str,
    *,
    ranks: int,
    batches: int,
    trace: Path | None = None,
    environment: Mapping[str, str] = AS_LAUNCHED,
) -> Result:
    """Runs a contestant once, in fresh processes.

    Args:
        name: of the contestant.
        ranks: processes.
        batches: of each rank's pool; passed over once to warm up and once to measure.
        trace: folder for a profile of a few further steps of rank 0.
        environment: of the processes, on top of this one's.
    """
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as directory:
        output = Path(directory) / "result.json"
        command = ["bench.rank", name, str(min(batches, CONTESTANTS[name].most_batches)), str(output)]
        run_processes([*command, str(trace or "")], ranks=ranks, logs=Path(directory), environment=environment)
        found = json.loads(output.read_text())
    return Result(ranks, **{name: tuple(value) if isinstance(value, list) else value for name, value in found.items()})


def measure(*arguments: object, environment: Mapping[str, str] = AS_LAUNCHED) -> Any:
    """Runs a module of this package as a fresh process of one thread; returns what it wrote as JSON.

    Args:
        arguments: module, then its arguments; the path of the file that it must write is added as the last.
        environment: of the process, on top of this one's.
    """
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as directory:
        output = Path(directory) / "result.json"
        run_processes([*map(str, arguments), str(output)], ranks=1, logs=Path(directory), environment=environment)
        return json.loads(output.read_text())


def run_processes(command: Sequence[str], *, ranks: int, logs: Path, environment: Mapping[str, str]) -> None:
    """Runs `python -m <command>` once for each rank and waits.

    Raises:
        SystemExit: with the end of a log, when a process fails.
    """
    with Rendezvous(ranks) as rendezvous:
        files = [(logs / f"rank-{rank}.log").open("w+b") for rank in range(ranks)]
        processes = [
            subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", *command],
                env={**os.environ, **environment, **(rendezvous.environment(rank) if ranks > 1 else {})},
                stdout=log,
                stderr=log,
            )
            for rank, log in enumerate(files)
        ]
        try:
            codes = [process.wait(_TIMEOUT_S) for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()
    for rank, (code, log) in enumerate(zip(codes, files, strict=True)):
        log.seek(0)
        text = log.read().decode(errors="replace")
        log.close()
        if code:
            raise SystemExit(f"bench: {' '.join(command)}: rank {rank} ended with {code}:\n{text[-3000:]}")
