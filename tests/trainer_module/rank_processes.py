"""Runs a function on several Horovod ranks, each a process: `function(rank, ranks, directory)`."""

import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sangam.trainer_module.launch.rendezvous import Rendezvous
from tests.trainer_module.launch import warm


def run_on_ranks(function: Callable[[int, int, Path], None], ranks: int, directory: Path, seconds: float = 300) -> None:
    """Runs a function of a test module on ranks that find each other; fails with a log if one of them does."""
    directory.mkdir(parents=True, exist_ok=True)
    arguments = [__name__, function.__module__, function.__name__, str(directory)]
    run_processes(arguments, ranks, [directory / f"process-{rank}.log" for rank in range(ranks)], seconds)


def run_processes(arguments: Sequence[str], ranks: int, logs: Sequence[Path], seconds: float) -> None:
    """Runs `python -m ...` once for each rank of a job; fails with the logs unless all of them succeed."""
    with Rendezvous(ranks) as rendezvous:
        processes = [warm.start(arguments, log, rendezvous.environment(rank)) for rank, log in enumerate(logs)]
        try:
            codes = [process.wait(seconds) for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()
    assert codes == [0] * ranks, "\n".join(log.read_text()[-3000:] for log in logs)


def main(module: str, name: str, directory: str) -> None:
    """Joins the other ranks and runs the function."""
    from sangam.trainer_module import collectives

    rank, ranks = collectives.start()
    function: Any = getattr(importlib.import_module(module), name)
    function(rank, ranks, Path(directory))
    collectives.stop()


if __name__ == "__main__":
    main(*sys.argv[1:4])
