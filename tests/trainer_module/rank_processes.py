"""Runs a function on several Horovod ranks, each a process: `function(rank, ranks, directory)`."""

from schemas.host.needless_imports import leave_out_needless

if __name__ == "__main__":
    leave_out_needless()  # As a rank does.

import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainer_module.launch.rendezvous import Rendezvous


def run_on_ranks(function: Callable[[int, int, Path], None], ranks: int, directory: Path, seconds: float = 300) -> None:
    """Runs a function of a test module on ranks that find each other; fails with a log if one of them does."""
    directory.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", __name__, function.__module__, function.__name__, str(directory)]
    logs = [directory / f"process-{rank}.log" for rank in range(ranks)]
    with Rendezvous(ranks) as rendezvous:
        processes = [
            subprocess.Popen(
                command,
                env={**os.environ, **rendezvous.environment(rank), "TF_USE_LEGACY_KERAS": "1"},
                stdout=log.open("wb"),
                stderr=subprocess.STDOUT,
            )
            for rank, log in enumerate(logs)
        ]
        try:
            codes = [process.wait(seconds) for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()
    assert codes == [0] * ranks, "\n".join(log.read_text()[-3000:] for log in logs)


def main(module: str, name: str, directory: str) -> None:
    """Joins the other ranks and runs the function."""
    from trainer_module import collectives

    rank, ranks = collectives.start()
    function: Any = getattr(importlib.import_module(module), name)
    function(rank, ranks, Path(directory))
    collectives.stop()


if __name__ == "__main__":
    main(*sys.argv[1:4])
