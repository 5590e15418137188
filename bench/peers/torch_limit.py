"""The measurements of `bench.limit` by PyTorch: `python -m bench.peers.torch_limit POSITIONS OUTPUT`."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from bench.dimensions import BATCH_SIZE_PER_RANK, TOTAL_IDS, products
from bench.limit import PRECISIONS, ROW_FLOATS, median_s, read_positions


def main(positions: str, output: str) -> None:
    """Measures on the first core, one thread."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    batches = [torch.from_numpy(batch) for batch in read_positions(Path(positions))]
    with torch.no_grad():
        found: dict[str, Any] = {
            "library": "PyTorch",
            "products": {precision: _products_s(getattr(torch, precision)) for precision in PRECISIONS},
            "rows": {optimizer: _rows_s(batches, floats) for optimizer, floats in ROW_FLOATS.items()},
        }
    Path(output).write_text(json.dumps(found))


def _products_s(precision: torch.dtype) -> list[float]:
    seconds = []
    for product in products(BATCH_SIZE_PER_RANK):
        left, right = (torch.randn(shape, dtype=precision) for shape in (product.left, product.right))
        a = left.t() if product.left_transposed else left
        b = right.t() if product.right_transposed else right
        out = torch.empty(product.m, product.n, dtype=precision)
        seconds.append(median_s(lambda _, a=a, b=b, out=out: torch.matmul(a, b, out=out)))
    return seconds


def _rows_s(batches: Sequence[torch.Tensor], floats: int) -> float:
    table, buffer = torch.ones(TOTAL_IDS, floats), torch.empty(0)

    def read_and_write(number: int) -> None:
        positions = batches[number]
        rows = buffer.resize_(len(positions), floats)
        torch.index_select(table, 0, positions, out=rows)
        table.index_copy_(0, positions, rows)

    return median_s(read_and_write)


if __name__ == "__main__":
    main(*sys.argv[1:])
