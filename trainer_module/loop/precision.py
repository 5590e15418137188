"""Precision of the dense layers: the spec's, or the faster one on this machine.

Processors without units for bfloat16 (AMX, AVX512-BF16) multiply more slowly in it than in float32, and the spec does
not say which processor runs the job. So each job measures.
"""

import logging
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from sangam.schemas.spec import RankerSpec
from sangam.trainer_module import collectives
from sangam.trainer_module.dense import fused
from sangam.trainer_module.placement import HOST_ALONE, Placement
from sangam.trainer_module.ranker import Ranker, with_precision

_LOG = logging.getLogger(__name__)
_MEASURED_S = 1.0
_LEAST_STEPS = 3
_CLEARLY_FASTER = 0.95
"""`auto` chooses bfloat16 below this share of float32's time: bfloat16 rounds, so a tie goes to float32."""


@dataclass(frozen=True)
class Precision:
    """The chosen precision.

    Attributes:
        chosen: `float32`, `tf32` or `bfloat16`.
        note: message to the user; may be empty.
    """

    chosen: str
    note: str = ""


def settle(
    spec: RankerSpec,
    placement: Placement = HOST_ALONE,
) -> tuple[RankerSpec, Precision]:
    """Returns the spec with `auto` replaced by the chosen precision. All ranks call it together and agree.

    Sets whether this process's products of float32 on a GPU are rounded to TF32, which TensorFlow does by itself.
    """
    wanted = spec.training.dense_precision
    rounding = tf.config.experimental.enable_tensor_float_32_execution
    rounding(wanted in ("tf32", "auto"))
    precisions = ("float32" if placement.accelerator is None else "tf32", "bfloat16")
    is_fixed = wanted in ("float32", "tf32")
    precision = decide(wanted, {} if is_fixed else _measured_s(spec, precisions, placement))
    rounding(precision.chosen == "tf32")
    if precision.note:
        _LOG.info("%s", precision.note)
    return with_precision(spec, precision.chosen), precision


def decide(wanted: str, seconds: Mapping[str, float]) -> Precision:
    """Returns the precision to compute in.

    Args:
        wanted: the spec's precision.
        seconds: duration of the dense part of a step, in full precision (float32 or tf32) and in bfloat16; not read
            for float32 and tf32.
    """
    if wanted in ("float32", "tf32"):
        return Precision(wanted)
    (name, full), (_, half) = seconds.items()
    times = f"the dense part of a step takes {half * 1e3:.3g} ms in bfloat16 and {full * 1e3:.3g} ms in {name}"
    if wanted == "auto":
        chosen = "bfloat16" if half < _CLEARLY_FASTER * full else name
        return Precision(chosen, f"training.dense_precision: auto chose {chosen}: on this machine {times}")
    if half <= full:
        return Precision("bfloat16")
    warning = f"training.dense_precision: bfloat16 is slower than {name} on this machine: {times}"
    return Precision("bfloat16", f"{warning}; declare auto or {name}")


def _measured_s(spec: RankerSpec, precisions: Sequence[str], placement: Placement) -> dict[str, float]:
    """Returns the median seconds of the dense part, forward and backward, by precision, averaged over the ranks.

    Measures the precisions alternately, so that other load on the machine affects both alike.
    """
    with placement.dense():
        rankers = {name: Ranker(with_precision(spec, name), placement=placement) for name in precisions}
        steps = {name: _dense_step(ranker) for name, ranker in rankers.items()}
    for step in steps.values():
        step()  # Trace it.
    seconds: dict[str, list[float]] = {precision: [] for precision in precisions}
    given_up = time.monotonic() + _MEASURED_S
    while time.monotonic() < given_up or len(seconds[precisions[-1]]) < _LEAST_STEPS:
        for precision, step in steps.items():
            started = time.perf_counter()
            step()
            seconds[precision].append(time.perf_counter() - started)
    medians = tf.constant([statistics.median(seconds[precision]) for precision in precisions], tf.float64)
    sums = collectives.allreduce_sum(medians, name="dense_precision").numpy()
    return dict(zip(precisions, (sums / spec.cluster.ranks).tolist(), strict=True))


def _dense_step(ranker: Ranker) -> Callable[[], object]:
    """Returns a function that computes logits of a random batch, and the gradients of weights and inputs."""
    spec, on_host = ranker.spec, ranker.placement.accelerator is None
    flat = tf.constant(ranker.weights.initial(seed=spec.training.seed))
    x_BI = tf.random.stateless_normal([spec.training.batch_size_per_rank, ranker.inputs.width], [1, 2])

    @tf.function(autograph=False)
    def step(flat: tf.Tensor, x_BI: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with ranker.placement.dense():
            with fused.in_training(on_host=on_host), tf.GradientTape() as tape:
                tape.watch([flat, x_BI])
                loss = tf.reduce_sum(ranker.logits_of_inputs(ranker.weights.unpack(flat), x_BI))
            gradients = tape.gradient(loss, [flat, x_BI])
            return tf.reduce_sum(gradients[0]), tf.reduce_sum(gradients[1])

    return lambda: [total.numpy() for total in step(flat, x_BI)]
