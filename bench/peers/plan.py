"""The turns of `make bench-peers`, and the file of their results."""

import dataclasses
import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import processes, results
from bench.contest import AS_LAUNCHED, Result, compete, measure
from bench.contestants import CONTESTANTS
from bench.limit import write_positions
from bench.machine import Machine
from bench.processes import Process
from bench.torch_processes import ENVIRONMENT, PYTHON

LIMIT = "limit"
APART = "apart"
"""Two independent trainings of one rank at the same time."""
_WAYS: dict[str, tuple[str, ...]] = {
    "sangam_auto": ("1", "2"),
    "sangam": ("1", "2", APART, "4"),
    "torchrec": ("1", "2"),
    "torch": ("1", "2"),
    "sangam_rowwise": ("1", "2"),
    "sangam_horovod": ("2",),
    "sangam_stale": (APART, "2"),
    "sangam_bf16": ("1", "2", APART, "4"),
    "torchrec_bf16": ("1", "2"),
    "torch_bf16": ("1", "2"),
    "sangam_rowwise_bf16": ("1", "2"),
    "tfra": ("1", "2"),
    "tfra_tables": ("1", "2"),
    "tfra_bf16": ("1", "2"),
    "keras": ("1",),
    "keras_adagrad": ("1", "2"),
    "sangam_defaults": ("1",),
}
NAMES = (LIMIT, *_WAYS)
WAYS = ("1", "2", APART, "4")


@dataclass(frozen=True)
class Turn:
    """A contestant's turn in a repeat.

    Attributes:
        repeat: number from 0.
        name: contestant, or `LIMIT`.
        way: number of ranks, or `APART`.
    """

    repeat: int
    name: str
    way: str

    @property
    def label(self) -> str:
        """Name in the output."""
        if self.name == LIMIT:
            return f"repeat {self.repeat}: the limit"
        how = "two of 1 rank at the same time" if self.way == APART else f"ranks: {self.way}"
        return f"repeat {self.repeat}: {CONTESTANTS[self.name].label}, {how}"


def turns(repeats: int, only: Sequence[str], among: Sequence[str] = WAYS, *, with_torch: bool) -> Iterator[Turn]:
    """Yields all turns, repeat after repeat, so that a slower machine slows all contestants."""
    for repeat in range(repeats):
        if not only or LIMIT in only:
            yield Turn(repeat, LIMIT, "")
        for name, ways in _WAYS.items():
            contestant = CONTESTANTS[name]
            is_wanted = (not only or name in only) and (with_torch or not contestant.is_in_torch)
            if is_wanted and repeat < contestant.most_repeats:
                yield from (Turn(repeat, name, way) for way in ways if way in among)


class Memory:
    """The results so far, in a file: the same command resumes an interrupted run.

    Raises:
        SystemExit: the file is of another machine: ratios are of one.
    """

    def __init__(self, file: Path, of: Machine):
        self._file, self._machine = file, dataclasses.asdict(of)
        document = json.loads(file.read_text()) if file.exists() else {"machine": self._machine, "turns": []}
        if document["machine"] != self._machine:
            raise SystemExit(f"peers: {file}: of another machine (got {document['machine']}); name another --output")
        self.entries: list[dict[str, Any]] = document["turns"]

    def has(self, turn: Turn) -> bool:
        """Whether the turn has been taken."""
        return any(dataclasses.asdict(turn).items() <= entry.items() for entry in self.entries)

    def add(self, turn: Turn, found: Any) -> None:
        """Keeps the results of a turn."""
        self.entries.append({**dataclasses.asdict(turn), "found": found})
        self.write({})

    def write(self, more: dict[str, Any]) -> None:
        """Writes all results, and more members beside them."""
        results.write(self._file, {"machine": self._machine, "turns": self.entries, **more})

    def results(self, name: str, way: str) -> dict[int, list[Result]]:
        """Returns by repeat the results of a contestant: one, or one of each independent training."""
        of_turns = [entry for entry in self.entries if (entry["name"], entry["way"]) == (name, way)]
        return {entry["repeat"]: [Result(**found) for found in entry["found"]] for entry in of_turns}

    def limits(self) -> dict[int, list[dict[str, Any]]]:
        """Returns each library's times, by repeat."""
        return {entry["repeat"]: entry["found"] for entry in self.entries if entry["name"] == LIMIT}


def take(turn: Turn, batches: int, *, with_torch: bool) -> Any:
    """Takes a turn; returns the results that `Memory` keeps."""
    if turn.name == LIMIT:
        return _limits(with_torch=with_torch)
    how = {"trainings": 2} if turn.way == APART else {"ranks": int(turn.way)}
    return [dataclasses.asdict(result) for result in compete(turn.name, **how, batches=batches)]


def _limits(*, with_torch: bool) -> list[Any]:
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as directory:
        folder = Path(directory)
        positions, output = folder / "positions.npz", folder / "torch.json"
        write_positions(positions)
        found = [measure("bench.limit", positions)]
        if with_torch:
            command = ["bench.peers.torch_limit", str(positions), str(output)]
            processes.run([Process(command, {**AS_LAUNCHED, **ENVIRONMENT}, python=str(PYTHON))], folder)
            found.append(json.loads(output.read_text()))
        return found
