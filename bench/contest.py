"""Runs contestants, one at a time, and measurements of one module, in fresh processes."""

import json
import statistics
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import processes, served, torch_processes
from bench.contestants import CONTESTANTS
from bench.dimensions import BATCH_SIZE_PER_RANK
from sangam.trainer_module.launch.children import ALLOCATOR

AS_LAUNCHED = {"OMP_NUM_THREADS": "1", **ALLOCATOR}
"""Environment of a rank under the launcher of training jobs; every contestant runs with it."""
CORE, MEETING = "SANGAM_BENCH_CORE", "SANGAM_BENCH_MEETING"
"""Variables of a rank: its core, by default its rank's; the folder where independent trainings wait for each other, so
that they are measured at the same time, and their number: `FOLDER:2`."""


@dataclass(frozen=True)
class Result:
    """The measurements of one training.

    Attributes:
        ranks: processes of one thread, each on a core of its own.
        step_s: seconds of every measured step of rank 0.
        cpu_s: processor seconds of rank 0 per step.
        losses: summed over the tasks: of the last step of the first pass over the data, and of the second.
        precision: precision of the dense part, as chosen where `auto` chooses.
    """

    ranks: int
    step_s: Sequence[float]
    cpu_s: float
    losses: Sequence[float]
    precision: str

    @property
    def median_s(self) -> float:
        """Median of the measured steps."""
        return statistics.median(self.step_s)

    @property
    def examples_per_s(self) -> float:
        """Speed of all ranks together."""
        return self.ranks * BATCH_SIZE_PER_RANK / self.median_s


def compete(name: str, *, ranks: int = 1, trainings: int = 1, batches: int) -> list[Result]:
    """Runs a contestant once, in fresh processes; returns the result of each training.

    Args:
        name: name of the contestant.
        ranks: processes of a training, which take turns on the cores where they are more.
        trainings: independent ones at the same time, each of one rank on a core of its own.
        batches: batches of each rank; one pass warms up, one is measured.
    """
    contestant = CONTESTANTS[name]
    batches = min(batches, contestant.most_batches)
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as directory, ExitStack() as stack:
        folder, started, beside = Path(directory), [], []
        for number in range(trainings):
            own, shared = folder / str(number), dict(AS_LAUNCHED)
            own.mkdir()
            if contestant.is_in_torch:
                started += torch_processes.ranks_of(contestant, own, ranks=ranks, batches=batches, environment=shared)
                continue
            if trainings > 1:
                shared |= {CORE: str(number), MEETING: f"{folder}:{trainings}"}
            if contestant.staleness is not None:
                core = frozenset({processes.cores()[number]} if trainings > 1 else ())
                server, variables = served.server_of(contestant, own, ranks=ranks, environment=AS_LAUNCHED, cores=core)
                beside.append(server)
                shared |= variables
            command = ["bench.rank", name, str(batches), str(own / "result.json")]
            started += processes.ranks_of(command, ranks, shared, stack)
        processes.run(started, folder, beside=beside)
        return [_read(folder / str(number) / "result.json", ranks) for number in range(trainings)]


def measure(*arguments: object, ranks: int = 1) -> Any:
    """Runs a module of this package as fresh processes of one thread; returns the JSON document that it writes.

    Args:
        arguments: module, then its arguments; the path of the document is added as the last.
        ranks: processes, which find each other.
    """
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as directory, ExitStack() as stack:
        output = Path(directory) / "result.json"
        command = [*map(str, arguments), str(output)]
        processes.run(processes.ranks_of(command, ranks, AS_LAUNCHED, stack), Path(directory))
        return json.loads(output.read_text())


def _read(output: Path, ranks: int) -> Result:
    return Result(ranks, **json.loads(output.read_text()))
