"""The dense part of a step, with and without XLA, by precision: `python -m bench.gpu.dense OUTPUT.json`."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from bench.gpu.timed import spread, timed
from bench.results import table, write
from bench.workload import ranker
from sangam.trainer_module import placement
from sangam.trainer_module.placement import Placement
from sangam.trainer_module.ranker import Ranker

_PRECISIONS = ("float32", "tf32", "bfloat16")
_WARM_STEPS = 3


def main() -> None:
    """Measures every setting; writes the results and prints their table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--batches", type=int, nargs="+", default=(4_096, 65_536))
    parser.add_argument("--seconds", type=float, default=1.0, help="of measured steps in each setting")
    options = parser.parse_args()
    beside = placement.beside()
    results = [
        _measured(beside, batch, precision, options.seconds, has_xla=has_xla)
        for batch in options.batches
        for precision in _PRECISIONS
        for has_xla in (False, True)
    ]
    write(options.output, {"accelerator": beside.accelerator, "results": results})
    print(table(("batch", "precision", "XLA", "ms"), [list(map(str, found.values())) for found in results]))


def _measured(beside: Placement, batch: int, precision: str, seconds: float, *, has_xla: bool) -> dict[str, Any]:
    tf.config.experimental.enable_tensor_float_32_execution(precision == "tf32")
    step = _step(Ranker(ranker(batch_size_per_rank=batch, dense_precision=precision), placement=beside), batch, has_xla)
    told: dict[str, Any] = {"batch": batch, "precision": precision, "xla": has_xla}
    try:
        took = timed(step, seconds=seconds, warm=_WARM_STEPS)
    except tf.errors.OpError as error:  # Without CUDA's compiler, XLA has none for the card.
        return {**told, "median_ms": None, "error": error.message.splitlines()[0]}
    return {**told, "median_ms": round(spread(took)["median_s"] * 1e3, 2)}


def _step(of: Ranker, batch: int, has_xla: bool) -> Callable[[], object]:
    with of.placement.dense():
        flat = tf.constant(of.weights.initial(seed=1))
        x_BI = tf.random.stateless_normal([batch, of.inputs.width], [1, 2])

    @tf.function(autograph=False, jit_compile=has_xla)
    def step(flat: tf.Tensor, x_BI: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch([flat, x_BI])
            loss = tf.reduce_sum(of.logits_of_inputs(of.weights.unpack(flat), x_BI))
        gradients = tape.gradient(loss, [flat, x_BI])
        return tf.reduce_sum(gradients[0]), tf.reduce_sum(gradients[1])

    def run() -> object:
        with of.placement.dense():
            return [total.numpy() for total in step(flat, x_BI)]

    return run


if __name__ == "__main__":
    main()
