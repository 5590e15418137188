"""The processes of a contestant in PyTorch, which run in an environment of their own: `bench/peers/setup.sh`."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from bench.contestants import Contestant
from bench.dimensions import BATCH_SIZE_PER_RANK, cardinalities
from bench.processes import Process, cores
from bench.workload import pool

_PLACE = Path(".venv-peers")
PYTHON = _PLACE / "bin" / "python"
# What its compiler makes is kept there, so that only the first run compiles.
ENVIRONMENT = {
    "GLOO_SOCKET_IFNAME": "lo",
    "TORCHINDUCTOR_CACHE_DIR": str(_PLACE.absolute() / "compiled"),
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
}


def ranks_of(
    contestant: Contestant, folder: Path, *, ranks: int, batches: int, environment: Mapping[str, str]
) -> list[Process]:
    """Writes every rank's pool into a folder; returns the ranks, to be started."""
    usable, started = cores(), []
    for rank in range(ranks):
        examples = pool(batches * BATCH_SIZE_PER_RANK, seed=rank)
        # Keys are hashes: their remainders hash the ids into tables as long as there are ids, as users of PyTorch do.
        ids = examples.keys % np.array(cardinalities())
        for name, column in {"ids": ids, "floats": examples.floats, "labels": examples.labels}.items():
            np.save(folder / f"{name}-{rank}.npy", column)
        core = str(usable[rank % len(usable)])
        how = [contestant.kind, contestant.precision, str(rank), str(ranks), str(folder), core]
        command = ["bench.peers.torch_rank", *how]
        started.append(Process(command, {**environment, **ENVIRONMENT}, python=str(PYTHON)))
    return started
