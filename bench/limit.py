"""The limit of a rank: its matrix products and its rows at the speed that this core reaches for them alone.

    python -m bench.limit POSITIONS OUTPUT

Products of exactly the shapes of the model, forward and backward, one after the other, on operands that were used just
before; unique rows of a batch, read and written once in a table of ten million. POSITIONS has those rows, batch after
batch, from `write_positions`. TensorFlow and numpy here, PyTorch in `bench.peers.torch_limit`; the faster counts.
"""

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.dimensions import BATCH_SIZE_PER_RANK, DIM, TOTAL_IDS, multiply_adds, products

ROW_FLOATS = {"adam": 3 * DIM, "rowwise_adagrad": DIM + 1}
"""Floats of a row with its optimizer's slots."""
PRECISIONS = ("float32", "bfloat16")
_WARM, _TIMES = 3, 15


class Limit(NamedTuple):
    """Seconds of a step, at least.

    Attributes:
        dense_s: seconds of the products.
        rows_s: seconds to read and write the rows.
    """

    dense_s: float
    rows_s: float

    @property
    def examples_per_s(self) -> float:
        """Upper bound of a rank's speed."""
        return BATCH_SIZE_PER_RANK / (self.dense_s + self.rows_s)


def limit_of(found: Sequence[Mapping[str, Any]], precision: str, optimizer: str) -> Limit:
    """Returns the limit by the times of one or more libraries: of each product the fastest.

    Args:
        found: seconds of each product in the order of `products` (`products`, by precision), of one of its kind; and of
            the rows of a batch (`rows`, by optimizer).
        precision: precision of the products.
        optimizer: optimizer of the rows.
    """
    of_step = list(products(BATCH_SIZE_PER_RANK))
    fastest = [min(times) for times in zip(*(each["products"][precision] for each in found), strict=True)]
    seconds = sum(product.count * each_s for product, each_s in zip(of_step, fastest, strict=True))
    # The experts' mixture, some thousandths of the work, as fast as the rest.
    share = multiply_adds(BATCH_SIZE_PER_RANK) / sum(product.multiply_adds for product in of_step)
    return Limit(seconds * share, min(each["rows"][optimizer] for each in found))


def median_s(call: Callable[[int], object], *, times: int = _TIMES) -> float:
    """Returns the median seconds of a call, which is given its number; a few calls before it do not count."""
    seconds = []
    for number in range(_WARM + times):
        started = time.perf_counter()
        call(number)
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds[_WARM:])


def write_positions(file: Path) -> None:
    """Writes the positions of the unique rows of some batches in a table, spread by their hashes."""
    from bench.workload import pool

    keys = pool((_WARM + _TIMES) * BATCH_SIZE_PER_RANK, seed=0).keys
    batches = np.split(keys, _WARM + _TIMES)
    np.savez(file, *[np.unique(batch) % TOTAL_IDS for batch in batches])


def read_positions(file: Path) -> list[NDArray[np.int64]]:
    """Returns the batches of `write_positions`."""
    with np.load(file) as arrays:
        return [arrays[name] for name in arrays.files]


def main(positions: str, output: str) -> None:
    """Measures on the first core, one thread."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    batches = read_positions(Path(positions))
    found = {
        "library": "TensorFlow, numpy",
        "products": {precision: _products_s(precision) for precision in PRECISIONS},
        "rows": {optimizer: _rows_s(batches, floats) for optimizer, floats in ROW_FLOATS.items()},
    }
    Path(output).write_text(json.dumps(found))


def _products_s(precision: str) -> list[float]:
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    seconds = []
    for product in products(BATCH_SIZE_PER_RANK):
        left, right = (tf.cast(tf.random.normal(shape), precision) for shape in (product.left, product.right))
        sides = {"transpose_a": product.left_transposed, "transpose_b": product.right_transposed}
        seconds.append(median_s(lambda _, a=left, b=right, s=sides: tf.matmul(a, b, **s)))
    return seconds


def _rows_s(batches: Sequence[NDArray[np.int64]], floats: int) -> float:
    table = np.ones([TOTAL_IDS, floats], np.float32)

    def read_and_write(number: int) -> None:
        positions = batches[number]
        table[positions] = np.take(table, positions, axis=0)

    return median_s(read_and_write)


if __name__ == "__main__":
    main(*sys.argv[1:])
