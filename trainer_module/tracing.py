"""Traces the parts of others once, without data: what they return, and whether it can be exported.

As a process it reads a ranker's JSON from standard input, and ends with 1 and the mistake on standard error. With the
argument `layers` it prints which code computes the layers, instead.
"""

from sangam.schemas.host.needless_imports import leave_out_needless

if __name__ == "__main__":
    leave_out_needless()  # Before the imports below.

import sys

import tensorflow as tf

from sangam.schemas.derived.columns import feature_columns
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column
from sangam.schemas.spec import RankerSpec
from sangam.trainer_module.dense import choice, fused
from sangam.trainer_module.dense.noise import Noise
from sangam.trainer_module.dense.optimizers import DenseState
from sangam.trainer_module.input.batch import Batch
from sangam.trainer_module.ranker import Ranker, with_precision
from sangam.trainer_module.transforms.outside import feature_of_others

_TYPES = {"float": tf.float32, "int": tf.int64, "string": tf.string}


def trace(spec: RankerSpec) -> None:
    """Builds the graphs of features, losses, scores and a step of the optimizer.

    Raises:
        UserError: a part of others is wrong; with its file and line.
    """
    _trace_features(spec)
    precision = spec.training.dense_precision
    ranker = Ranker(with_precision(spec, "bfloat16" if precision == "bfloat16" else "float32"))
    weights, embeddings = _inputs(ranker)

    def scores(flat: tf.Tensor, batch: Batch, rows: dict[str, tf.Tensor]) -> tf.Tensor:
        return ranker.logits(ranker.weights.unpack(flat), batch, rows)

    _trace_losses(ranker)
    tf.function(scores, autograph=False).get_concrete_function(weights, ranker.layout.batch_spec(), embeddings)
    if not spec.training.dense_optimizer.is_ours:
        state = DenseState(spec.training.dense_optimizer, ranker.weights, seed=0)
        step = tf.TensorSpec([], tf.int64)
        tf.function(state.apply, autograph=False).get_concrete_function(weights, step, tf.TensorSpec([], tf.float32))


def layers(spec: RankerSpec) -> str:
    """Returns which code would compute the layers in a training on this processor, and why: see `choice.line`.

    Raises:
        UserError: a part of others is wrong, or our operations cannot be compiled.
    """
    precision = spec.training.dense_precision
    if precision == "auto":
        precision = "bfloat16" if fused.has_units_for(tf.bfloat16) else "float32"
    ranker = Ranker(with_precision(spec, precision))
    on_host = spec.training.dense_place != "device"
    with fused.in_training(on_host=on_host), choice.told() as answers:
        _trace_losses(ranker)
    return choice.line(answers, ranker.weights.weights)


def _trace_losses(ranker: Ranker) -> None:
    def losses(flat: tf.Tensor, batch: Batch, rows: dict[str, tf.Tensor]) -> tf.Tensor:
        noise = Noise.of_step(seed=0, step=tf.constant(1, tf.int64), rank=0) if ranker.has_dropout else None
        return ranker.losses(ranker.weights.unpack(flat), batch, rows, noise)

    weights, embeddings = _inputs(ranker)
    tf.function(losses, autograph=False).get_concrete_function(weights, ranker.layout.batch_spec(), embeddings)


def _inputs(ranker: Ranker) -> tuple[tf.TensorSpec, dict[str, tf.TensorSpec]]:
    rows = {name: tf.TensorSpec([None, group.dim], tf.float32) for name, group in ranker.groups.items()}
    return tf.TensorSpec([ranker.weights.size], tf.float32), rows


def _trace_features(spec: RankerSpec) -> None:
    for name, feature in spec.features.items():
        if feature.is_ours:
            continue
        read = feature_columns(spec, name)
        tag = spec.table_tags().get(str(feature.table_name()), 0)

        def made(*columns: tf.SparseTensor, feature=feature, tag=tag, read=read) -> tf.Tensor:  # type: ignore[no-untyped-def]
            return feature_of_others(feature, tag, read, columns)

        tf.function(made, autograph=False).get_concrete_function(*map(_spec_of, read))


def _spec_of(column: Column) -> tf.SparseTensorSpec:
    return tf.SparseTensorSpec([None, None], _TYPES[column.type])


def main(*arguments: str) -> None:
    """Reads a ranker from standard input; traces its parts, or prints which code computes its layers."""
    given = RankerSpec.model_validate_json(sys.stdin.read())
    if arguments == ("layers",):
        tf.config.threading.set_intra_op_parallelism_threads(given.cluster.threads_per_rank)
        print(layers(given))
    else:
        trace(given)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except UserError as error:
        sys.exit(str(error))
