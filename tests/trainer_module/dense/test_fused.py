"""What one pass computes is what TensorFlow's operations compute, gradients included."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sangam.schemas.errors import UserError
from sangam.schemas.spec import RankerSpec
from tests.errors import mentions, place_and_value

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")

B, INPUTS, H, N, T = 37, 11, 20, 4, 3


PRECISIONS = pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16], ids=["float32", "bfloat16"])


def _random(*shape: int, dtype: Any = tf.float32) -> Any:
    return tf.cast(np.random.default_rng(len(shape)).normal(size=shape), dtype)


def _with_gradients(compute: Any, arguments: list[Any]) -> list[Any]:
    """Returns outputs, and gradients of a sum in which every output counts differently."""
    with tf.GradientTape() as tape:
        tape.watch(arguments)
        outputs = compute(*arguments)
        weighted = [tf.cast(output, tf.float32) * _random(*output.shape) for output in outputs]
        total = tf.add_n([tf.reduce_sum(part) * (n + 1) for n, part in enumerate(weighted)])
    return [*outputs, *map(tf.convert_to_tensor, tape.gradient(total, arguments))]


def _equal(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        # TensorFlow rounds sums to bfloat16 more often.
        atol, rtol = (3e-5, 1e-5) if one.dtype == tf.float32 else (0.3, 0.03)
        np.testing.assert_allclose(tf.cast(one, tf.float32), tf.cast(other, tf.float32), atol=atol, rtol=rtol)


_SIZES = {
    "one of everything": (1, 1, 1, 1),
    "no example": (0, INPUTS, N, H),
    "less than a tile": (B, INPUTS, N, H),
    "whole tiles": (128, 64, 2, 32),
    "more than a block": (1_100, 33, 3, 40),
}


@pytest.fixture(params=[tf.float32, tf.bfloat16], ids=["float32", "bfloat16"])
def of_layers(request: pytest.FixtureRequest) -> Any:
    """A kind of number that this processor can compute layers of."""
    from sangam.trainer_module.dense.fused import has_units_for

    flags = Path("/proc/cpuinfo").read_text()
    unit = "amx_bf16" if request.param == tf.bfloat16 else "avx512bw"
    assert has_units_for(request.param) == (unit in flags)
    if unit not in flags:
        pytest.skip(f"this processor has no {unit}")
    return request.param


@pytest.mark.parametrize("are_inputs_first", [False, True], ids=["gradients together", "inputs' gradient first"])
@pytest.mark.parametrize("sizes", _SIZES.values(), ids=_SIZES)
def test_a_layer_equals_products_biases_and_relus_of_each_network(
    sizes: tuple[int, ...], are_inputs_first: bool, of_layers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sangam.trainer_module.dense import fused
    from sangam.trainer_module.dense.native_layer import Networks, layer

    batch, inputs, networks, width = sizes
    gates = 5
    arguments = [
        _random(batch, inputs, dtype=of_layers),
        _random(inputs, networks * width, dtype=of_layers),
        _random(networks * width, dtype=of_layers),
        _random(inputs, gates, dtype=of_layers),
        _random(gates, dtype=of_layers),
    ]

    def plain(x: Any, w: Any, b: Any, w_gates: Any, b_gates: Any) -> list[Any]:
        return [*tf.split(tf.nn.relu(x @ w + b), networks, axis=1), x @ w_gates + b_gates]

    def in_one_pass(x: Any, w: Any, b: Any, w_gates: Any, b_gates: Any) -> list[Any]:
        parts = [Networks(w, b, networks, True), Networks(w_gates, b_gates, 1, False)]
        experts, gates_of_all = layer(x, parts)
        return [*experts, *gates_of_all]

    monkeypatch.setattr(fused, "threads", lambda: 1)
    with fused.in_training(are_inputs_first=are_inputs_first):
        found = _with_gradients(in_one_pass, arguments)
    _close(found, _with_gradients(plain, [_exact(each) for each in arguments]))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("are_inputs_first", [False, True], ids=["gradients together", "inputs' gradient first"])
def test_a_layer_of_members_on_threads_equals_a_layer_of_each_member(
    are_inputs_first: bool, threads: int, of_layers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sangam.trainer_module.dense import fused
    from sangam.trainer_module.dense.native_layer import Networks, layer

    members, batch = 2, 600
    x, w, b = (
        _random(*shape, dtype=of_layers) for shape in ((members * batch, INPUTS), (members * INPUTS, 2 * H), (4 * H,))
    )

    def plain(x: Any, w: Any, b: Any) -> list[Any]:
        each = zip(*(tf.split(part, members) for part in (x, w, b)), strict=True)
        return tf.split(tf.concat([tf.nn.relu(its @ w + b) for its, w, b in each], 0), 2, axis=1)

    monkeypatch.setattr(fused, "threads", lambda: threads)
    with fused.in_training(are_inputs_first=are_inputs_first):
        found = _with_gradients(lambda x, w, b: layer(x, [Networks(w, b, 2, True)], members)[0], [x, w, b])
    _close(found, _with_gradients(plain, [_exact(each) for each in (x, w, b)]))


def _noise() -> Any:
    from sangam.trainer_module.dense.noise import Noise

    return Noise.of_step(seed=3, step=tf.constant(5), rank=1)


@PRECISIONS
@pytest.mark.parametrize(("threads", "rows", "columns"), [(1, 1, 1), (3, B, 3), (2, 700, 5), (1, 5, 2_051)])
def test_dropout_in_one_pass_is_that_of_tensorflow_bit_by_bit(
    threads: int, rows: int, columns: int, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sangam.trainer_module.dense import fused

    x, rates = _random(rows, columns, dtype=dtype), np.linspace(0, 0.9, columns, dtype=np.float32)
    monkeypatch.setattr(fused, "threads", lambda: threads)
    for rate in (0.1, rates, np.flip(rates)):
        expected = _with_gradients(lambda x, rate=rate: [_noise().dropout(x, rate, "layer")], [x])
        with fused.in_training():
            found = _with_gradients(lambda x, rate=rate: [_noise().dropout(x, rate, "layer")], [x])
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(_exact(one), _exact(other))


def test_a_layer_keeps_a_nan(of_layers: Any) -> None:
    from sangam.trainer_module.dense.native_layer import Networks, layer

    x, w = _random(B, INPUTS, dtype=of_layers), _random(INPUTS, H, dtype=of_layers)
    nan = tf.fill([H], tf.cast(np.nan, of_layers))
    for has_relu in (True, False):
        [[output]] = layer(x, [Networks(w, nan, 1, has_relu)])
        assert bool(tf.reduce_all(tf.math.is_nan(output)))


def _not_a_row(place: str, numbers: list[int], rows: int) -> str:
    wrong = next(number for number in numbers if not 0 <= number < rows)
    return place_and_value(place, f"(got {wrong}) ... [0, {rows})")


def _exact(x: Any) -> Any:
    return tf.cast(x, tf.float32)


def _close(found: list[Any], exact: list[Any]) -> None:
    """Compares with sums that were never rounded to bfloat16, by the largest number of each output."""
    assert len(found) == len(exact)
    for one, other in zip(found, exact, strict=True):
        assert one.shape == other.shape
        most = 2e-6 if one.dtype == tf.float32 else 1e-2
        scale = float(tf.reduce_max(tf.abs(other))) if tf.size(other) else 1.0
        np.testing.assert_allclose(_exact(one), other, atol=most * scale, rtol=0)


@PRECISIONS
def test_inputs_equal_parts_gathered_put_side_by_side_and_rounded(dtype: Any) -> None:
    from sangam.trainer_module.dense.fused import Gathered, inputs

    numbers, rows, others = _random(B, 3), _random(7, 8), _random(5, 4)
    index, few = (tf.random.stateless_uniform([B * n], [n, 1], 0, 5, tf.int32) for n in (6, 1))

    def plain(numbers: Any, rows: Any, others: Any) -> list[Any]:
        parts = [numbers, tf.reshape(tf.gather(rows, index), [B, -1]), tf.gather(others, few)]
        return [tf.cast(tf.concat(parts, axis=1), dtype)]

    def in_one_pass(numbers: Any, rows: Any, others: Any) -> list[Any]:
        return [inputs([numbers, Gathered(rows, index, 6), Gathered(others, few, 1)], dtype)]

    found, expected = (_with_gradients(compute, [numbers, rows, others]) for compute in (in_one_pass, plain))
    np.testing.assert_array_equal(_exact(found[0]), _exact(expected[0]))
    _equal(found, expected)


@pytest.mark.parametrize("index", [[0, 7], [-1, 0]], ids=["beyond the rows", "negative"])
def test_an_index_that_no_row_has_fails_the_step(index: list[int]) -> None:
    from sangam.trainer_module.dense.fused import Gathered, inputs

    with pytest.raises(tf.errors.InvalidArgumentError, match=_not_a_row("SangamInputs: indexes[0]", index, 7)):
        inputs([Gathered(_random(7, 8), tf.constant(index), 1)], tf.float32)


@PRECISIONS
@pytest.mark.parametrize("tasks", [1, T])
def test_mixtures_equal_a_product_of_stacked_experts(tasks: int, dtype: Any) -> None:
    from sangam.trainer_module.dense.fused import mixtures

    arguments = [_random(B, tasks, N, dtype=dtype), *(_random(B, H, dtype=dtype) * (n + 1) for n in range(N))]
    expected = _with_gradients(
        lambda gates, *experts: tf.unstack(tf.matmul(gates, tf.stack(experts, 1)), axis=1), arguments
    )
    _equal(_with_gradients(lambda gates, *experts: mixtures(gates, experts), arguments), expected)


def test_sums_of_bins_equal_the_product_of_shares_inside_on_the_edges_and_beyond_the_bins() -> None:
    from sangam.trainer_module.dense.fused import piecewise_linear
    from sangam.trainer_module.encoders.numbers import passed_shares

    bins, inside = 5, np.random.default_rng(0).uniform(-2, 7, size=(3, B))
    numbers = tf.constant(np.concatenate([inside, np.tile(np.arange(-1.0, 7.0), (3, 1))], axis=1), tf.float32)
    w = _random(3, bins, 8)
    expected = _with_gradients(lambda w: [passed_shares(numbers[:, :, None], bins) @ w], [w])
    _equal(_with_gradients(lambda w: [piecewise_linear(numbers, w)], [w]), expected)
    assert bool(tf.reduce_all(tf.math.is_nan(piecewise_linear(tf.fill([3, 2], np.float32(np.nan)), w))))


@pytest.mark.parametrize("more", [0, 2], ids=["rows of Adam alone", "rows with books"])
def test_adam_of_rows_where_they_lie_is_the_formula_of_all_optimizers_bit_by_bit(more: int) -> None:
    from sangam.trainer_module.dense.fused import adam_rows, read_rows
    from sangam.trainer_module.embedding.bookkeeping import merged_books
    from sangam.trainer_module.embedding.row_optimizers import adam, adam_rate

    rows, step = _random(2 * B, 3 * H + more), tf.constant(7, tf.int64)
    rows = tf.concat([rows[:, : 2 * H], tf.square(rows[:, 2 * H : 3 * H]), tf.zeros([2 * B, more])], 1)
    numbers, g = tf.constant(np.random.default_rng(3).permutation(2 * B)[:B]), _random(B, H)
    newest, occurrences = (tf.range(first, first + B) for first in (5, 1))
    variable = tf.Variable(rows)
    np.testing.assert_array_equal(read_rows(variable, numbers, H), tf.gather(rows, numbers)[:, :H])
    w, m, v, books = tf.split(tf.gather(rows, numbers), [H, H, H, more], axis=1)
    settings: Any = {"rate": 0.01, "betas": (0.9, 0.999)}
    parts = list(adam(w, m, v, g, step, **settings, epsilon=1e-7))
    parts += [merged_books(books, newest, occurrences)] if more else []
    expected = tf.tensor_scatter_nd_update(rows, numbers[:, None], tf.concat(parts, 1))
    held = variable.read_value()  # Whoever has read the variable keeps what was read.
    seen = (newest, occurrences) if more else None
    adam_rows(variable, numbers, g, adam_rate(step, **settings), settings["betas"], 1e-7, seen)
    np.testing.assert_array_equal(variable, expected)
    np.testing.assert_array_equal(held, rows)


@pytest.mark.parametrize("more", [0, 2], ids=["rows alone", "rows with books"])
def test_rowwise_adagrad_of_rows_where_they_lie_is_the_formula_of_all_optimizers(more: int) -> None:
    from sangam.trainer_module.dense.fused import rowwise_adagrad_rows
    from sangam.trainer_module.embedding.bookkeeping import merged_books

    rows = tf.concat([_random(2 * B, H), tf.square(_random(2 * B, 1)), tf.zeros([2 * B, more])], 1)
    numbers, g = tf.constant(np.random.default_rng(3).permutation(2 * B)[:B]), _random(B, H)
    newest, occurrences = (tf.range(first, first + B) for first in (5, 1))
    variable = tf.Variable(rows)
    w, a, books = tf.split(tf.gather(rows, numbers), [H, 1, more], axis=1)
    a += tf.reduce_mean(tf.square(g), axis=1, keepdims=True)
    parts = [w - 0.01 * tf.math.rsqrt(a) * g, a]
    parts += [merged_books(books, newest, occurrences)] if more else []
    expected = tf.tensor_scatter_nd_update(rows, numbers[:, None], tf.concat(parts, 1))
    rowwise_adagrad_rows(variable, numbers, g, 0.01, (newest, occurrences) if more else None)
    np.testing.assert_allclose(variable, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("numbers", [[0, 5], [-1, 0]], ids=["beyond the rows", "negative"])
def test_a_number_that_no_row_has_fails_the_step_and_changes_nothing(numbers: list[int]) -> None:
    from sangam.trainer_module.dense.fused import adam_rows, read_rows

    rows = tf.Variable(tf.ones([5, 3]))
    wrong, g = tf.constant(numbers, tf.int64), tf.ones([2, 1])
    for call in (lambda: read_rows(rows, wrong, 1), lambda: adam_rows(rows, wrong, g, 0.1, (0.9, 0.99), 1e-7)):
        with pytest.raises(tf.errors.InvalidArgumentError, match=_not_a_row(r"Sangam ... numbers", numbers, 5)):
            call()
    np.testing.assert_array_equal(rows, tf.ones([5, 3]))


_EXPERTS = {"expert_units": [32, 16], "tower_units": [8]}
_PLE = {"kind": "ple", "task_experts": 2, "shared_experts": 2, **_EXPERTS}
_CROSSES = {"kind": "dcn_v2", "num_layers": 2, "deep_units": [8]}
_MODELS: dict[str, dict[str, Any]] = {
    "mmoe with dropout": {"kind": "mmoe", "num_experts": 4, "dropout": 0.2, **_EXPERTS},
    "ple of crosses with dropout": {**_PLE, "interaction": _CROSSES, "dropout": 0.5},
    "ple of crosses of low rank": {**_PLE, "interaction": {**_CROSSES, "rank": 8}},
    "ensemble of mixed crosses": {
        **_PLE, "interaction": {**_CROSSES, "rank": 8, "num_experts": 2}, "ensemble": {"members": 3}, "dropout": 0.2
    },
}  # fmt: skip


def test_a_switch_computes_layers_with_tensorflow_on_every_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    from sangam.trainer_module.dense import choice, fused

    w, x = _random(INPUTS, H), _random(B, INPUTS)
    monkeypatch.setattr(fused, "threads", lambda: 1)
    with fused.in_training():
        for value, expected in {"native": fused.has_units_for(tf.float32), "tensorflow": False}.items():
            monkeypatch.setenv("SANGAM_LAYERS", value)
            assert choice.is_native({"w": w}, x) == expected
        monkeypatch.setenv("SANGAM_LAYERS", "sse")
        with pytest.raises(UserError, match=place_and_value("SANGAM_LAYERS", "(got 'sse') ... tensorflow")):
            choice.is_native({"w": w}, x)


@pytest.mark.parametrize("layers", ["native", "tensorflow"])
@pytest.mark.parametrize("kind", _MODELS)
def test_a_training_step_computes_what_tensorflow_computes(
    kind: str, layers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sangam.trainer_module.dense import choice, fused
    from sangam.trainer_module.ranker import Ranker
    from tests.trainer_module.sample_job import declared

    document = declared(average=None).model_dump(mode="json", exclude_unset=True) | {"model": _MODELS[kind]}
    spec = RankerSpec.model_validate_json(json.dumps(document))
    ranker = Ranker(spec)
    flat, x = tf.constant(ranker.weights.initial(seed=1)), _random(B, ranker.inputs.width)

    def logits(flat: Any, x: Any) -> list[Any]:
        noise = _noise() if ranker.has_dropout else None
        return [ranker.logits_of_members(ranker.weights.unpack(flat), x, noise)]

    expected = _with_gradients(logits, [flat, x])
    monkeypatch.setattr(fused, "threads", lambda: 1)
    monkeypatch.setenv("SANGAM_LAYERS", layers)
    with fused.in_training(), choice.told() as answers:
        _equal(_with_gradients(logits, [flat, x]), expected)
    if fused.has_units_for(tf.float32):
        native = {name for name, answer in answers.items() if not answer.why}
        wide = {name for name in answers if not name.startswith("heads/")}
        assert native == (wide if layers == "native" else set())


def test_without_a_compiler_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sangam.trainer_module.native import library

    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(UserError) as caught:
        library.library()
    assert mentions(str(caught.value), "sangam-native ... (got neither g++ nor c++); install g++")
