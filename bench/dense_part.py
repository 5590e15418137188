"""The dense part of a step by several codes, in turn: `python -m bench.dense_part THREADS SECONDS CODES MODEL...`.

Forward, backward and update of the dense weights, inputs' gradient included, on random inputs of 4,096 examples.
`native` has our operations, `layers` all of them but those of layers, `tensorflow` none, `xla` none and is compiled.
"""

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import tensorflow as tf

from bench.workload import BATCH_SIZE_PER_RANK, ranker
from sangam.schemas.spec import RankerSpec
from sangam.trainer_module.dense import choice, fused
from sangam.trainer_module.dense.noise import Noise
from sangam.trainer_module.dense.optimizers import DenseState
from sangam.trainer_module.ranker import Ranker

_PLE = {"kind": "ple", "expert_units": [256, 128], "tower_units": [64]}
_MMOE = {"kind": "mmoe", "num_experts": 4, "expert_units": [256, 128], "tower_units": [64]}
MODELS: dict[str, dict[str, Any]] = {
    "bench": _MMOE,
    "ple_dcn": {**_PLE, "interaction": {"kind": "dcn_v2", "num_layers": 2}},
    "ple_low_rank": {**_PLE, "interaction": {"kind": "dcn_v2", "num_layers": 2, "rank": 64}},
    "single_task": {"kind": "single_task", "tower_units": [512, 256, 128]},
}
MODELS |= {f"{name}_dropout": {**model, "dropout": 0.1} for name, model in MODELS.items()}
MODELS["bench_ensemble"] = {**_MMOE, "ensemble": {"members": 4}}


def main(threads: str, seconds: str, codes: str, *models: str) -> None:
    """Prints the median milliseconds of each model by each code."""
    tf.config.threading.set_intra_op_parallelism_threads(int(threads))
    tf.config.threading.set_inter_op_parallelism_threads(1)
    for name in models:
        document = ranker(dense_precision="float32").model_dump(mode="json", exclude_unset=True)
        of_model = Ranker(RankerSpec.model_validate_json(json.dumps(document | {"model": MODELS[name]})))
        steps: dict[str, Callable[[], float]] = {}
        for code in codes.split(","):
            started = time.perf_counter()
            steps[code] = _step(of_model, code)
            loss = steps[code]()
            print(f"{name} {code}: first step {time.perf_counter() - started:.1f} s, loss {loss:.6f}", flush=True)
        print(name, _in_turn(steps, float(seconds)), flush=True)


def _in_turn(steps: dict[str, Callable[[], float]], seconds: float) -> str:
    taken: dict[str, list[float]] = {code: [] for code in steps}
    until = time.monotonic() + seconds * len(steps)
    while time.monotonic() < until:
        for code, step in steps.items():
            started = time.perf_counter()
            step()
            taken[code].append((time.perf_counter() - started) * 1e3)
    return "; ".join(
        f"{code} {statistics.median(of):.1f} ms ({min(of):.1f} to {max(of):.1f})" for code, of in taken.items()
    )


def _step(of_model: Ranker, code: str) -> Callable[[], float]:
    state = DenseState(of_model.spec.training.dense_optimizer, of_model.weights, seed=0)
    x_BI = tf.random.stateless_normal([BATCH_SIZE_PER_RANK, of_model.inputs.width], [1, 2])
    labels_BT = tf.cast(
        tf.random.stateless_uniform([BATCH_SIZE_PER_RANK, len(of_model.tasks)], [3, 4]) > 0.7, "float32"
    )
    step = tf.Variable(0, dtype=tf.int64)
    os.environ[choice.LAYERS_VARIABLE] = "native" if code == "native" else "tensorflow"

    @tf.function(autograph=False, jit_compile=code == "xla")
    def trained(x_BI: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        number = step.assign_add(1)
        noise = Noise.of_step(seed=0, step=number, rank=0) if of_model.has_dropout else None
        flat = state.flat.read_value()
        with fused.in_training() if code in ("native", "layers") else nullcontext(), tf.GradientTape() as tape:
            tape.watch([flat, x_BI])
            logits = of_model.logits_of_members(of_model.weights.unpack(flat), x_BI, noise)
            labels = tf.tile(labels_BT, [tf.shape(logits)[0] // BATCH_SIZE_PER_RANK, 1])
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))
            of_flat, of_x = tape.gradient(loss, [flat, x_BI])
        state.apply(of_flat, number, 0.001)
        return loss, of_x

    return lambda: float(trained(x_BI)[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
