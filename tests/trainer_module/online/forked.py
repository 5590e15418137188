"""Ranks of an online training that are forked and killed; see `fork_server`."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sangam.schemas.contracts.training_job import TrainJob
from sangam.trainer_module.launch.rank_group import clear_meeting, place_here
from tests.fakes import bad_disk
from tests.paths import REPOSITORY

_LONGEST_S = 120.0


@dataclass(frozen=True)
class Kill:
    """Where a rank is killed.

    Attributes:
        rank: that is.
        accesses: to files of the job's folder until then.
        delay_s: after them.
    """

    rank: int
    accesses: int
    delay_s: float = 0.0


class ForkServer:
    """A process that has imported TensorFlow."""

    def __init__(self, process: "subprocess.Popen[str]"):
        self._process = process

    def run(self, made: TrainJob, *, last: int, kill: Kill | None = None) -> bool:
        """Runs the ranks of an online training until a segment is learned; returns whether the kill came before."""
        codes = self.run_to_end(made, last=last, kill=kill)
        log = (Path(made.log_dir) / f"rank-{kill.rank if kill else 0}.log").read_text()[-3000:]
        assert all(code == 0 for code in codes.values()) or kill is not None, log
        if kill is not None and any(codes.values()):
            assert codes[kill.rank] == -signal.SIGKILL, (codes, log)
        return any(codes.values())

    def run_to_end(
        self, made: TrainJob, *, last: int, kill: Kill | None = None, bad_disk: Path | None = None
    ) -> dict[int, int]:
        """Runs the ranks until a segment is learned or one of them fails; returns their exit codes.

        Args:
            made: the job, written.
            last: number of the segment.
            kill: of one of the ranks.
            bad_disk: folder on a disk that `tests.fakes.bad_disk` makes bad.
        """
        folder = Path(made.log_dir).parent
        made.stop_file.unlink(missing_ok=True)
        made.online_file.unlink(missing_ok=True)  # Of ranks that were killed.
        ranks = range(made.ranker.cluster.ranks)
        clear_meeting(made)
        disk = {"SANGAM_TEST_BAD_DISK": str(bad_disk or "")}
        request = {
            "job": str(folder / "job.json"),
            "folder": str(folder),
            "environments": [{**place_here(rank, len(ranks)), **disk} for rank in ranks],
            "logs": [str(Path(made.log_dir) / f"rank-{rank}.log") for rank in ranks],
            "kill": kill and vars(kill),
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._codes(made, last)

    def _codes(self, made: TrainJob, last: int) -> dict[int, int]:
        assert self._process.stdout is not None
        given_up = time.monotonic() + _LONGEST_S
        while not select.select([self._process.stdout], [], [], 0.02)[0]:
            assert time.monotonic() < given_up, (Path(made.log_dir) / "rank-0.log").read_text()[-3000:]
            if made.online_file.exists() and json.loads(made.online_file.read_text())["segment"] >= last:
                made.stop_file.touch()
        return {int(rank): code for rank, code in json.loads(self._process.stdout.readline()).items()}


@contextmanager
def fork_server() -> Iterator[ForkServer]:
    """Runs a fork server."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.trainer_module.online.fork_server", str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        env={**bad_disk.environment(Path()), "SANGAM_TEST_BAD_DISK": ""},
    )
    try:
        yield ForkServer(process)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()
