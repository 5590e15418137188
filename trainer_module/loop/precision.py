"""Precision of the dense layers: the spec's, or the faster one on this machine.

Processors without matrix units for bfloat16 (AMX) multiply more slowly in it than in float32, and the spec does not
say which processor runs the job. So each job measures.
"""

import logging
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import tensorflow as tf

from sangam.schemas.spec import RankerSpec
from sangam.trainer_module import collectives
from sangam.trainer_module.dense import fused
from sangam.trainer_module.ranker import Ranker, with_precision

_LOG = logging.getLogger(__name__)
_PRECISIONS = ("float32", "bfloat16")
_MEASURED_S = 1.0
_LEAST_STEPS = 3
_CLEARLY_FASTER = 0.95
"""`auto` chooses bfloat16 below this share of float32's time: bfloat16 rounds, so a tie goes to float32."""


@dataclass(frozen=True)
class Precision:
    """The chosen precision.

    Attributes:
        chosen: `float32` or `bfloat16`.
        note: message to the user; may be empty.
    """

    chosen: str
    note: str = ""


def settle(spec: RankerSpec) -> tuple[RankerSpec, Precision]:
    """Returns the spec with `auto` replaced by the chosen precision. All ranks call it together and agree."""
    wanted = spec.training.dense_precision
    precision = decide(wanted, {} if wanted == "float32" else _measured_s(spec))
    if precision.note:
        _LOG.info("%s", precision.note)
    return with_precision(spec, precision.chosen), precision


def decide(wanted: str, seconds: Mapping[str, float]) -> Precision:
    """Returns the precision to compute in.

    Args:
        wanted: the spec's precision.
        seconds: duration of the dense part of a step, by precision; not read for float32.
    """
    if wanted == "float32":
        return Precision("float32")
    full, half = (seconds[precision] for precision in _PRECISIONS)
    times = f"the dense part of a step takes {half * 1e3:.3g} ms in bfloat16 and {full * 1e3:.3g} ms in float32"
    if wanted == "auto":
        chosen = "bfloat16" if half < _CLEARLY_FASTER * full else "float32"
        return Precision(chosen, f"training.dense_precision: auto chose {chosen}: on this machine {times}")
    if half <= full:
        return Precision("bfloat16")
    warning = f"training.dense_precision: bfloat16 is slower than float32 on this machine: {times}"
    return Precision("bfloat16", f"{warning}; declare auto or float32")


def _measured_s(spec: RankerSpec) -> dict[str, float]:
    """Returns the median seconds of the dense part, forward and backward, by precision, averaged over the ranks.

    Measures the precisions alternately, so that other load on the machine affects both alike.
    """
    steps = {precision: _dense_step(with_precision(spec, precision)) for precision in _PRECISIONS}
    for step in steps.values():
        step()  # Trace it.
    seconds: dict[str, list[float]] = {precision: [] for precision in _PRECISIONS}
    given_up = time.monotonic() + _MEASURED_S
    while time.monotonic() < given_up or len(seconds[_PRECISIONS[-1]]) < _LEAST_STEPS:
        for precision, step in steps.items():
            started = time.perf_counter()
            step()
            seconds[precision].append(time.perf_counter() - started)
    medians = tf.constant([statistics.median(seconds[precision]) for precision in _PRECISIONS], tf.float64)
    sums = collectives.allreduce_sum(medians, name="dense_precision").numpy()
    return dict(zip(_PRECISIONS, (sums / spec.cluster.ranks).tolist(), strict=True))


def _dense_step(spec: RankerSpec) -> Callable[[], object]:
    """Returns a function that computes logits of a random batch, and the gradients of weights and inputs."""
    ranker = Ranker(spec)
    flat = tf.constant(ranker.weights.initial(seed=spec.training.seed))
    x_BI = tf.random.stateless_normal([spec.training.batch_size_per_rank, ranker.inputs.width], [1, 2])

    @tf.function(autograph=False)
    def step(flat: tf.Tensor, x_BI: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with fused.in_training(), tf.GradientTape() as tape:
            tape.watch([flat, x_BI])
            loss = tf.reduce_sum(ranker.logits_of_inputs(ranker.weights.unpack(flat), x_BI))
        gradients = tape.gradient(loss, [flat, x_BI])
        return tf.reduce_sum(gradients[0]), tf.reduce_sum(gradients[1])

    return lambda: [total.numpy() for total in step(flat, x_BI)]
