"""The workload in PyTorch on one card, the peer of `bench.gpu.training`: `python -m bench.gpu.torch_peer OUTPUT.json`.

One process, all rows in the card's memory, sparse Adam for rows, fused Adam for the rest. Needs PyTorch and NumPy,
not this project; `--device cpu` proves the program.
"""

import argparse
import itertools
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench.dimensions import NUM_FLOATS, NUM_TASKS, TOTAL_IDS, cardinalities
from bench.gpu.card import Utilization
from bench.gpu.timed import spread, timed
from bench.peers.torch_ddp import step_of

_ZIPF_EXPONENT = 1.05
_BATCHES_A_PASS = 8
_WARM_STEPS = 10
_PRECISIONS = ("float32", "tf32", "bfloat16")


def main() -> None:
    """Trains in every setting; writes the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batches", type=int, nargs="+", default=(4_096, 65_536))
    parser.add_argument("--seconds", type=float, default=3.0, help="of measured steps in each setting")
    options = parser.parse_args()
    results = []
    for batch, precision in itertools.product(options.batches, _PRECISIONS):
        results.append(_measured(options.device, batch, precision, options.seconds))
        print(json.dumps(results[-1]), flush=True)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps({"torch": torch.__version__, "results": results}, indent=1) + "\n")


def _measured(device: str, batch: int, precision: str, seconds: float) -> dict[str, Any]:
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    batches = itertools.cycle([_batch(batch) for _ in range(_BATCHES_A_PASS)])
    step = step_of(batches, bfloat16=precision == "bfloat16", device=device)
    timed(step, seconds=0.0, warm=_WARM_STEPS)
    with Utilization() as card:
        took = timed(step, seconds=seconds, warm=0)
    return {
        "precision": precision,
        "batch": batch,
        **spread(took),
        "busy_percent": card.percent,
        "peak_bytes": torch.cuda.max_memory_allocated() if device == "cuda" else None,
    }


def _batch(size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Returns ids drawn as by `bench.workload.zipf`, numbers and labels, in memory that the card can read."""
    rest = 1.0 - _ZIPF_EXPONENT
    columns = []
    for count in cardinalities(TOTAL_IDS):
        drawn = ((count**rest - 1.0) * torch.rand(size, dtype=torch.float64) + 1.0) ** (1.0 / rest)
        columns.append(torch.clamp(drawn.long() - 1, 0, count - 1))
    parts = torch.stack(columns, 1), torch.randn(size, NUM_FLOATS), torch.randint(0, 2, (size, NUM_TASKS)).float()
    if torch.cuda.is_available():
        ids_BF, floats, labels_BT = (part.pin_memory() for part in parts)
        return ids_BF, floats, labels_BT
    return parts


if __name__ == "__main__":
    main()
