"""One graph however many features: its size, and how often it is traced."""

import json
from typing import Any

import numpy as np
import pytest

from sangam.schemas.spec import RankerSpec
from tests.trainer_module.sample_blocks import batch_of

pytestmark = [pytest.mark.slow, pytest.mark.long]
tf = pytest.importorskip("tensorflow")

COMBINERS = ("sum", "mean", "sqrtn")


def declared(per_kind: int) -> RankerSpec:
    """Returns a ranker with so many features of each kind, all tables alike."""
    features: dict[str, Any] = {}
    for number in range(per_kind):
        features |= {
            f"number_{number}": {"kind": "numeric", "normalize": "zscore"},
            f"binned_{number}": {"kind": "numeric", "encoding": {"kind": "piecewise_linear"}},
            f"wave_{number}": {"kind": "numeric", "encoding": {"kind": "periodic"}},
            f"vector_{number}": {"kind": "vector", "dim": 3},
            f"id_{number}": {"kind": "id", "type": "int", "table": f"table_{number % 7}"},
            f"ids_{number}": {"kind": "ids", "type": "int", "table": "lists", "combiner": COMBINERS[number % 3]},
            f"weighted_{number}": {
                "kind": "ids",
                "type": "int",
                "table": "lists",
                "combiner": COMBINERS[number % 3],
                "weights": f"weight_{number}",
            },
            f"mean_{number}": {"kind": "sequence", "type": "int", "table": "lists", "max_length": 9},
        }
    document = {
        "name": "many",
        "features": features,
        "tables": {name: {"dim": 4} for name in ("lists", *(f"table_{number}" for number in range(7)))},
        "tasks": {"like": {"kind": "binary"}},
        "model": {"kind": "single_task"},
        "training": {
            "batch_size_per_rank": 8,
            "dense_optimizer": {"kind": "adam", "learning_rate": 0.01},
            "embedding_optimizer": {"kind": "adagrad", "learning_rate": 0.05},
        },
        "cluster": {"ranks": 1, "data_workers": 0},
    }
    return RankerSpec.model_validate_json(json.dumps(document))


def examples(ranker: RankerSpec, count: int, *, seed: int) -> list[bytes]:
    """Returns transformed examples, serialized: [count]."""
    from sangam.schemas.derived.outputs import outputs

    generator, found = np.random.default_rng(seed), []
    for _ in range(count):
        example, lengths = tf.train.Example(), generator.integers(0, 4, 10_000)
        for place, output in enumerate(outputs(ranker)):
            # The ids of a feature and their weights follow each other and are equally many.
            size = int(lengths[place - output.name.endswith("/weights")]) if output.is_list else output.width
            values = example.features.feature[output.name]
            if output.type == "key":
                values.int64_list.value.extend(generator.integers(1 << 52, (1 << 52) + 50, size).tolist())
            else:
                values.float_list.value.extend(generator.integers(0, 2, size).tolist())
        found.append(example.SerializeToString())
    return found


def _trainer(ranker: RankerSpec) -> Any:
    from sangam.trainer_module import collectives
    from sangam.trainer_module.loop.in_step import InStepTrainer
    from sangam.trainer_module.ranker import Ranker

    collectives.start()
    return InStepTrainer(Ranker(ranker), rank=0, ranks=1)


def _operations(function: Any) -> int:
    graph = function.get_concrete_function().graph.as_graph_def()
    return len(graph.node) + sum(len(inner.node_def) for inner in graph.library.function)


def test_the_train_step_has_as_many_operations_with_ten_times_the_features() -> None:
    few, many = (_trainer(declared(per_kind)) for per_kind in (7, 70))
    assert _operations(few._train_step) == _operations(many._train_step)
    assert _operations(few._logits) == _operations(many._logits)


def _input_operations(per_kind: int) -> dict[str, int]:
    """Returns how many operations it takes to parse blocks of logs, to pack what Transform makes of them, both of
    examples transformed ahead, and to read a request's columns; and in how many groups the columns of logs lie."""
    from sangam.schemas.derived.columns import columns, serving_columns
    from sangam.schemas.derived.outputs import outputs
    from sangam.trainer_module.input.batch import Layout
    from sangam.trainer_module.input.blocks import Table
    from sangam.trainer_module.input.example_reader import transformed_reader
    from sangam.trainer_module.serving.raw_columns import checked, input_specs
    from sangam.trainer_module.serving.request_columns import columns_of
    from sangam.trainer_module.transforms.stacked import InStack, stacked

    ranker = declared(per_kind)
    served = {column.name: column for column in serving_columns(ranker)}
    types = {"float": tf.float32, "int": tf.int64, "string": tf.string}
    raw, ahead = Table({each.name: types[each.type] for each in columns(ranker)}), transformed_reader(ranker)
    made: dict[str, Any] = {}
    for output in outputs(ranker):
        kind = tf.int64 if output.type == "key" else tf.float32
        shape = [None] if output.width == 1 else [None, output.width]
        made[output.name] = tf.SparseTensorSpec([None, None], kind) if output.is_list else tf.TensorSpec(shape, kind)
    counts = {"groups": len(raw.names)}

    def request(inputs: dict[str, tf.Tensor]) -> None:
        _, asked = checked(served, inputs, tf.zeros(8, tf.int32))
        of_stacks: dict[int, list[Any]] = {}
        for column in columns_of(served, asked).values():
            if isinstance(column, InStack):
                of_stacks.setdefault(id(column.stack), []).append(column)
        for together in of_stacks.values():
            stacked(together)

    def count(blocks_W: tf.Tensor, made: dict[str, Any], inputs: dict[str, tf.Tensor]) -> None:
        for name, build in {
            "parse": lambda: raw.sparse(raw.decode(blocks_W)),
            "pack": lambda: Layout(ranker).pack(made),
            "ahead": lambda: ahead.batch_of(ahead.table.decode(blocks_W)),
            "request": lambda: request(inputs),
        }.items():
            before = len(blocks_W.graph.get_operations())
            build()
            counts[name] = len(blocks_W.graph.get_operations()) - before

    blocks = tf.TensorSpec([None], tf.string)
    tf.function(count, autograph=False).get_concrete_function(blocks, made, input_specs(served))
    return counts


def test_the_input_has_hardly_more_operations_with_ten_times_the_columns() -> None:
    few, many = _input_operations(10), _input_operations(100)
    assert many["parse"] - few["parse"] <= 60 * (many["groups"] - few["groups"])  # Of 128 columns each.
    # Beside vectors a float is widened (a slice and its three bounds), and one from a file is also given its width.
    numbers = 3 * 90
    assert many["pack"] - few["pack"] <= 4 * numbers
    assert many["ahead"] - few["ahead"] <= (4 + 2) * numbers
    # A padded list is flattened; one with weights is compared with them, and both lose what either lacks.
    flat, compared = 2 * 5 * 90, 200 * 90
    assert many["request"] - few["request"] <= flat + compared


def test_batches_of_any_size_are_trained_on_without_another_trace() -> None:
    ranker = declared(4)
    trainer = _trainer(ranker)
    batches = [batch_of(ranker, examples(ranker, size, seed=size)) for size in (8, 3, 1, 0, 5)]
    losses = [float(result.losses_T[0]) for result in trainer.steps(batches[:3])]
    assert np.isfinite(losses).all()
    trainer.predict(batches[4])
    for function in (trainer._train_step, trainer._logits, trainer._route):
        assert function.experimental_get_tracing_count() == 1


def test_an_example_without_one_weight_for_each_id_is_refused_by_the_name_of_the_feature() -> None:
    from sangam.trainer_module.input.batch import Layout

    layout, zeros = Layout(declared(1)), tf.zeros([2])
    two, one = (tf.ragged.constant(rows, tf.int64, row_splits_dtype=tf.int64) for rows in ([[7, 8], []], [[7], [8]]))
    columns = {name: zeros for name in ("number_0", "binned_0", "wave_0", "like")} | {"vector_0": tf.zeros([2, 3])}
    columns |= {"id_0": tf.zeros([2], tf.int64), "ids_0": two, "weighted_0": two, "mean_0": two}
    np.testing.assert_array_equal(
        layout.pack(columns | {"weighted_0/weights": tf.cast(two, tf.float32)})["lists"], [7, 8] * 3
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)value beside each id.*weighted_0"):
        layout.pack(columns | {"weighted_0/weights": tf.cast(one, tf.float32)})
