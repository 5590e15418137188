"""Runs ranks of contestants as fresh processes, one contestant at a time, and compares them within each repeat."""

import json
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import processes, served, torch_processes
from bench.contestants import CONTESTANTS
from bench.dimensions import BATCH_SIZE_PER_RANK
from bench.processes import Process
from trainer_module.launch.children import ALLOCATOR
from trainer_module.launch.rendezvous import Rendezvous

AS_LAUNCHED = {"OMP_NUM_THREADS": "1", **ALLOCATOR}
"""What the launcher of training jobs sets for a rank; every contestant runs with it."""
CORE, MEETING = "SANGAM_BENCH_CORE", "SANGAM_BENCH_MEETING"
"""Variables of a rank: the core it takes, by default its rank's; the folder where trainings that know nothing of each
other wait, so that they are measured at the same time, and their number: `FOLDER:2`."""


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
        ranks: processes, which share the cores in turn where they are more.
        batches: of each rank's pool; passed over once to warm up and once to measure.
        trace: folder for a profile of a few further steps of rank 0.
        environment: of the processes, on top of this one's.
    """
    contestant = CONTESTANTS[name]
    batches = min(batches, contestant.most_batches)
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as directory, ExitStack() as stack:
        folder, beside = Path(directory), []
        output = folder / "result.json"
        if contestant.is_in_torch:
            started = torch_processes.ranks_of(
                contestant, folder, ranks=ranks, batches=batches, environment=environment
            )
        else:
            rendezvous = stack.enter_context(Rendezvous(ranks))
            shared = dict(environment)
            if contestant.staleness is not None:
                beside, variables = served.server_of(contestant, folder, ranks=ranks, environment=environment)
                shared |= variables
            command = ["bench.rank", name, str(batches), str(output), str(trace or "")]
            started = [
                Process(command, {**shared, **(rendezvous.environment(rank) if ranks > 1 else {})})
                for rank in range(ranks)
            ]
        processes.run(started, folder, beside=beside)
        return _read(output, ranks)


def compete_apart(
    name: str, *, trainings: int, batches: int, environment: Mapping[str, str] = AS_LAUNCHED
) -> list[Result]:
    """Runs independent trainings of one rank at the same time, each with a core to itself and its parameter server.

    Args:
        name: of the contestant, one of ours.
        trainings: how many.
        batches: see `compete`.
        environment: see `compete`.
    """
    contestant = CONTESTANTS[name]
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as directory:
        folder, started, beside = Path(directory), [], []
        for number in range(trainings):
            own = folder / str(number)
            own.mkdir()
            shared = {**environment, CORE: str(number), MEETING: f"{folder}:{trainings}"}
            if contestant.staleness is not None:
                core = frozenset({processes.cores()[number]})
                server, variables = served.server_of(contestant, own, ranks=1, environment=environment, cores=core)
                beside += server
                shared |= variables
            started.append(Process(["bench.rank", name, str(batches), str(own / "result.json"), ""], shared))
        processes.run(started, folder, beside=beside)
        return [_read(folder / str(number) / "result.json", 1) for number in range(trainings)]


def measure(*arguments: object, environment: Mapping[str, str] = AS_LAUNCHED) -> Any:
    """Runs a module of this package as a fresh process of one thread; returns what it wrote as JSON.

    Args:
        arguments: module, then its arguments; the path of the file that it must write is added as the last.
        environment: of the process, on top of this one's.
    """
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as directory:
        output = Path(directory) / "result.json"
        processes.run([Process([*map(str, arguments), str(output)], environment)], Path(directory))
        return json.loads(output.read_text())


def _read(output: Path, ranks: int) -> Result:
    found = json.loads(output.read_text())
    return Result(ranks, **{name: tuple(value) if isinstance(value, list) else value for name, value in found.items()})
