"""The server's call in process: `python -m bench.serving_peers.ours NAME FOLDER`; one thread.

`call` is a request of `rank`, from arrays to arrays, in the session of the server. `dense` is the input of the dense
layers to scores, as the peers have it.
"""

import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from bench.serving_peers.preparation import DENSE, MODEL, read_requests, read_tasks
from bench.serving_peers.worker import Call, refuse_other_scores, take_turns
from sangam.components.server.session import ModelSession
from sangam.schemas.contracts.export import RANK


def main(name: str, place: str) -> None:
    """Takes turns, once the scores have been compared with the server's."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    folder = Path(place)
    session = ModelSession(folder / (DENSE if name == DENSE else MODEL), {})
    tasks, call = read_tasks(folder), session.call(DENSE if name == DENSE else RANK)

    def calls(candidates: int) -> Sequence[Call]:
        table = np.load(folder / f"requests-{candidates}.npz")
        requests: list[dict[str, Any]] = (
            [{"x": x} for x in table["x"]] if name == DENSE else read_requests(folder, candidates)
        )
        for arrays, scores in zip(requests, table["scores"], strict=True):
            found = call(arrays)
            refuse_other_scores(name, np.concatenate([found[task] for task in tasks], 1), scores)
        return [functools.partial(call, arrays) for arrays in requests]

    take_turns(calls)


if __name__ == "__main__":
    main(*sys.argv[1:])
