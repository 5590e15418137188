"""Time and memory to load an exported model and to ask it: `python -m bench.loaded_export MODEL ROWS OUTPUT`.

With MODEL empty, those of TensorFlow alone; with `tfra`, of TensorFlow with TFRA's operations.
"""

import json
import resource
import sys
import time
from pathlib import Path

started = time.perf_counter()

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from sangam.schemas.contracts.export import RANK, TABLE_SIZE  # noqa: E402

HISTORY, INTERESTS = 50, 20
_OF_ONE_USER = ("user", "history", "history_length", "interests", "interests_length")
_CANDIDATES, _REQUESTS = 200, 60


def requests(count: int, num_rows: int) -> dict[str, np.ndarray]:
    """Returns columns of `count` examples as `rank` takes them; about all their ids have a row."""
    generator, ids = np.random.default_rng(1), num_rows // 4
    return {
        "user": generator.integers(ids, size=count),
        "history": generator.integers(ids, size=[count, HISTORY]),
        "history_length": np.full(count, HISTORY),
        "interests": generator.integers(ids, size=[count, INTERESTS]),
        "interests_length": np.full(count, INTERESTS),
        "post": generator.integers(ids, size=count),
        "author": generator.integers(ids, size=count),
        "age_s": generator.normal(size=count).astype(np.float32),
        "length_s": generator.normal(size=count).astype(np.float32),
    }


def main(model: str, num_rows: str, output: str) -> None:
    """Measures, in a process that has done nothing else."""
    found: dict[str, object] = {}
    if "tfra" in model:
        import tensorflow_recommenders_addons  # noqa: F401
    tf.constant(1.0) + 1.0
    found["imports_s"] = time.perf_counter() - started
    if model not in ("", "tfra"):
        found |= _load(model, int(num_rows))
    found["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    Path(output).write_text(json.dumps(found))


def _load(model: str, num_rows: int) -> dict[str, object]:
    begun = time.perf_counter()
    loaded = tf.saved_model.load(model)
    given = {name: tf.constant(values) for name, values in requests(_CANDIDATES, num_rows).items()}
    rank = loaded.signatures[RANK]
    rank(**given)
    load_s = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    one_user = {name: values[:1] if name in _OF_ONE_USER else values for name, values in given.items()}
    return {
        "load_s": load_s,
        "loaded_peak_bytes": peak,
        "size": {name: int(size) for name, size in loaded.signatures[TABLE_SIZE]().items()},
        "one_user_ms": _median_ms(lambda: rank(**one_user)),
        "full_rows_ms": _median_ms(lambda: rank(**given)),
    }


def _median_ms(call) -> float:  # type: ignore[no-untyped-def]
    seconds = []
    for _ in range(_REQUESTS):
        begun = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begun)
    return sorted(seconds)[len(seconds) // 2] * 1e3


if __name__ == "__main__":
    main(*sys.argv[1:])
