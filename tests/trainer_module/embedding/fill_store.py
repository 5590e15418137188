"""Fills a store and writes how much memory that took: `python -m <this module> ROWS OUTPUT`.

A process of its own, because memory is that of a process.
"""

import json
import resource
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

from sangam.schemas.derived.groups import groups_of
from sangam.schemas.derived.plan import plan
from sangam.trainer_module.embedding.row_store import RowStore
from tests.schemas.derived.test_plan import of_users_and_posts

_BATCH = 20_000
_USERS_TAG = 2


def main(num_rows: str, output: str) -> None:
    """Adds rows batch by batch, as training does."""
    declared = of_users_and_posts(16, "adagrad")
    (group,) = groups_of(declared).values()
    store = RowStore(group, seed=1)
    make = tf.function(
        lambda keys: store.find_or_make(keys, None, tf.constant(1, tf.int64)),
        input_signature=[tf.TensorSpec([None], tf.int64)],
        autograph=False,
    )
    generator = np.random.default_rng(0)
    keys = ((_USERS_TAG << 52) | generator.integers(1, 2**52, _BATCH) for _ in range(int(num_rows) // _BATCH + 1))
    make(tf.constant(next(keys)))
    held, peak = _resident_bytes(), _peak_bytes()
    for some in keys:
        make(tf.constant(some))
    rows = store.num_rows
    rank = plan(declared, rows={"users": rows, "posts": 0}, ranks=1).ranks.mean
    result = {
        "rows": rows,
        "held": _resident_bytes() - held,
        "peak": _peak_bytes() - peak,
        "planned_held": rank.tables,
        "planned_peak": rank.tables + rank.growth,
    }
    Path(output).write_text(json.dumps(result))


def _resident_bytes() -> int:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Anonymous:"))


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main(*sys.argv[1:3])
