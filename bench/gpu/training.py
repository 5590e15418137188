"""Trains the workload with rows on the host and on the accelerator: `python -m bench.gpu.training OUTPUT.json`.

Without a GPU a second logical CPU is the accelerator: the same program, whose numbers say nothing about GPUs.
"""

import argparse
import gc
import itertools
from pathlib import Path
from typing import Any

import tensorflow as tf

from bench.dimensions import NUM_IDS, dense_weights
from bench.gpu.card import Utilization
from bench.gpu.timed import spread, timed
from bench.ours import batches_of
from bench.results import table, write
from bench.workload import Pool, pool, ranker
from sangam.trainer_module import collectives
from sangam.trainer_module import placement as placed
from sangam.trainer_module.loop.in_step import InStepTrainer
from sangam.trainer_module.loop.precision import settle
from sangam.trainer_module.placement import HOST_ALONE, Placement
from sangam.trainer_module.ranker import Ranker

_BATCHES = (4_096, 65_536)
_PRECISIONS = ("float32", "tf32", "bfloat16")
_BATCHES_A_PASS = 8
_WARM_STEPS = 10
"""All rows of the pool exist, and the graph is traced, before a step is measured."""


def main() -> None:
    """Trains in every setting, one after the other; writes the results and prints their table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--batches", type=int, nargs="+", default=_BATCHES)
    parser.add_argument("--ids", type=int, default=10_000_000, help="that keys are drawn from")
    parser.add_argument("--seconds", type=float, default=3.0, help="of measured steps in each setting")
    options = parser.parse_args()
    collectives.start()
    beside = placed.beside()
    results: list[dict[str, Any]] = []
    for batch in options.batches:
        examples = pool(batch * _BATCHES_A_PASS, num_ids=options.ids, seed=1)
        for placement, place in ((HOST_ALONE, "host"), (beside, "host"), (beside, "device")):
            # What names no device is the host's.
            with tf.device("/CPU:0"):
                for precision in _PRECISIONS if placement.accelerator else ("float32",):
                    found = _measured(examples, batch, placement, place, precision, options.seconds)
                    results.append(found)
                    gc.collect()  # The trainer, whose rows fill the device.
                    print(" | ".join(_line(found)), flush=True)
    workload = {"ids_per_example": NUM_IDS, "dense_weights": dense_weights()}
    write(options.output, {"accelerator": _name(beside), "workload": workload, "results": results})
    print(table(_HEADER, [_line(found) for found in results]))


_HEADER = ("dense", "rows", "precision", "batch", "examples/s", "ms a step", "spread", "GPU busy, %", "GPU memory, MB")


def _line(found: dict[str, Any]) -> list[str]:
    busy, memory = found["busy_percent"], found["peak_bytes"]
    return [
        found["dense"],
        found["rows"],
        found["precision"],
        f"{found['batch']:,}",
        f"{found['batch'] / found['median_s']:,.0f}",
        f"{found['median_s'] * 1e3:.1f}",
        f"{found['quartiles_s'][0] * 1e3:.1f} to {found['quartiles_s'][1] * 1e3:.1f}",
        "-" if busy is None else f"{busy:.0f}",
        "-" if memory is None else f"{memory / 1e6:,.0f}",
    ]


def _measured(
    examples: Pool, batch: int, placement: Placement, place: str, precision: str, seconds: float
) -> dict[str, Any]:
    """Returns the seconds of a step in a setting; its trainer is gone afterwards."""
    declared = ranker(place=place, batch_size_per_rank=batch, dense_precision=precision)
    # Sets the rounding of float32's products for the process.
    settle(declared.model_copy(), placement)
    trainer = InStepTrainer(Ranker(declared, placement=placement), rank=0, ranks=1)
    steps = trainer.steps(itertools.cycle(batches_of(examples, batch)))
    losses: list[float] = []

    def step() -> None:
        losses.append(float(next(steps).losses_T.numpy().sum()))

    timed(step, seconds=0.0, warm=_WARM_STEPS)
    with Utilization() as card:
        took = timed(step, seconds=seconds, warm=0)
    peak = None
    if placement.accelerator == "/GPU:0":
        peak = tf.config.experimental.get_memory_info("GPU:0")["peak"]
        tf.config.experimental.reset_memory_stats("GPU:0")
    return {
        "dense": "accelerator" if placement.accelerator else "host",
        "rows": place,
        "precision": precision,
        "batch": batch,
        "steps": len(took),
        **spread(took),
        "losses": [losses[_WARM_STEPS], losses[-1]],
        "busy_percent": card.percent,
        "peak_bytes": peak,
    }


def _name(placement: Placement) -> str:
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        return f"none: a logical CPU, {placement.accelerator}"
    return str(tf.config.experimental.get_device_details(gpus[0]).get("device_name", "GPU"))


if __name__ == "__main__":
    main()
