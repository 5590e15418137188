"""Every operation refuses inputs of wrong shapes, and attributes that do not fit, by name: it reads no other memory."""

import ctypes
import itertools
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.errors import place_and_value

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")

B, E, T, H, INPUTS = 5, 3, 2, 4, 6  # Batch, experts, tasks and width.

Shape = list[int]
_LAYER = {"COUNTS": [2, 1], "WIDTHS": [H, 3], "RELUS": [1, 0], "MEMBERS": 1, "THREADS": 1}
_OUTPUTS, _MATRICES, _BIASES = [[B, H], [B, H], [B, 3]], [[INPUTS, 2 * H], [INPUTS, 3]], [[2 * H], [3]]
_KEPT = 252 * 3 * 32
_UPDATE: dict[str, Any] = {"numbers": [2], "gradients": [2, H]}
_PARTS: dict[str, Any] = {"parts": [[B, 3], [7, H]], "indexes": [[B * 2]]}

# Inputs of each operation, and its attributes. A variable is the first input of its operation.
OPERATIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "mix": ({"gates": [B, T, E], "experts": [[B, H]] * E}, {"TASKS": T}),
    "mix_gradient": ({"gates": [B, T, E], "experts": [[B, H]] * E, "gradients": [[B, H]] * T}, {}),
    "dropout": (
        {"x": [[B, H], [B, 3]], "key": [1], "counter": [2], "least": [H + 3], "scale": [H + 3]},
        {"THREADS": 2},
    ),
    "piecewise": ({"numbers": [2, B], "w": [2, 3, H]}, {}),
    "piecewise_gradient": ({"numbers": [2, B], "gradients": [2, B, H]}, {"BINS": 3}),
    "inputs": (_PARTS, {"FEATURES": [0, 2], "N": tf.float32}),
    "inputs_gradient": ({"of_x": [B, 3 + 2 * H], **_PARTS}, {"FEATURES": [0, 2]}),
    "layer": ({"x": [B, INPUTS], "w": _MATRICES, "biases": _BIASES}, {"OUTPUTS": 3, **_LAYER}),
    "layer_gradient": ({"x": [B, INPUTS], "outputs": _OUTPUTS, "gradients": _OUTPUTS, "w": _MATRICES}, _LAYER),
    "layer_inputs_gradient": ({"outputs": _OUTPUTS, "gradients": _OUTPUTS, "w": _MATRICES}, _LAYER),
    "layer_weights_gradient": ({"x": [B, INPUTS], "kept": [_KEPT]}, {"M": 2, "OUTPUTS": 3, **_LAYER}),
    "read_rows": ({"rows": [9, H], "numbers": [2]}, {"COLUMNS": H}),
    "adam_rows": ({"rows": [9, 3 * H], **_UPDATE, "settings": [6]}, {}),
    "rowwise_adagrad_rows": ({"rows": [9, H + 1], **_UPDATE, "settings": [1]}, {}),
    "merge_books": ({"books": [9, 2], "numbers": [2], "newest": [2], "occurrences": [2]}, {}),
    "post": ({"data": [4], "counts": [1]}, {"channel": 0}),
    "collect": ({"number": []}, {"channel": 0, "T": tf.float32}),
    "collect_sum": ({"number": []}, {"channel": 0}),
}
# Dimensions that no other input has.
FREE = {
    ("piecewise", "numbers", 1), ("piecewise", "w", 1), ("piecewise", "w", 2), ("piecewise_gradient", "gradients", 2),
    ("inputs", "parts", 1), ("inputs", "parts[1]", 0), ("inputs_gradient", "parts[1]", 0), ("post", "data", 0),
    ("layer", "x", 0),
    ("layer_weights_gradient", "x", 0),
    ("layer_weights_gradient", "x", 1),
    ("read_rows", "numbers", 0), *((name, "rows", 0) for name in OPERATIONS),
    ("merge_books", "books", 0),
}  # fmt: skip
_VARIABLES = {"rows": tf.float32, "books": tf.int32}
_INTEGERS = {"numbers": tf.int64, "number": tf.int64}
_INTEGERS |= dict.fromkeys(("indexes", "newest", "occurrences", "counts", "least"), tf.int32)
_INTEGERS |= dict.fromkeys(("key", "counter"), tf.uint64)


@pytest.fixture(scope="module", autouse=True)
def _one_rank() -> Iterator[None]:
    """This process is the only rank of a job; its channel 0 has a message of four numbers."""
    from sangam.trainer_module.native.library import functions, operations

    one = ctypes.c_int * 1
    assert functions().sangam_join(0, 1, one(os.getpid()), one(functions().sangam_open())) == -1
    assert operations().sangam_post(tf.ones([4]), [4], channel=0) == 1
    yield
    functions().sangam_leave()


def _tensor(operation: str, name: str, shape: Shape) -> Any:
    if name == "counts":
        return tf.fill(shape, 4)
    if name == "number":
        return tf.ones(shape, tf.int64)
    is_index = name in _INTEGERS and not (operation == "piecewise" or operation == "piecewise_gradient")
    return tf.cast(tf.ones(shape), _INTEGERS[name] if is_index else tf.float32)


def _call(operation: str, inputs: dict[str, Any], attributes: dict[str, Any]) -> Any:
    from sangam.trainer_module.native.library import operations

    kept: list[Any] = []

    def given(name: str, shape: Any) -> Any:
        if shape and isinstance(shape[0], list):
            return [_tensor(operation, name, each) for each in shape]
        if name in _VARIABLES:
            kept.append(tf.Variable(tf.ones(shape, _VARIABLES[name])))
            return kept[0].handle
        return _tensor(operation, name, shape)

    arguments = {name: given(name, shape) for name, shape in inputs.items()}
    return getattr(operations(), f"sangam_{operation}")(**arguments, **attributes)


def _wrong(shape: Shape) -> Iterator[tuple[int | None, Shape]]:
    """Yields shapes that differ in one dimension, whose axis comes first, or in their rank."""
    yield None, [*shape, 1]
    if shape:
        yield None, shape[1:]
    for axis, more in itertools.product(range(len(shape)), (1, -1)):
        yield axis, [size + more * (at == axis) for at, size in enumerate(shape)]


def _places(shapes: Any) -> list[int | None]:
    return list(range(len(shapes))) if shapes and isinstance(shapes[0], list) else [None]


ONE_WRONG = [
    pytest.param(operation, name, place, id=f"{operation}-{name}" + ("" if place is None else f"-{place}"))
    for operation, (inputs, _) in OPERATIONS.items()
    for name, shapes in inputs.items()
    for place in _places(shapes)
]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_fitting_inputs_are_computed(operation: str) -> None:
    from sangam.trainer_module.dense.fused import has_units_for

    if operation.startswith("layer") and not has_units_for(tf.float32):
        pytest.skip("this processor has no units for layers")
    _call(operation, *OPERATIONS[operation])


@pytest.mark.parametrize(("operation", "name", "place"), ONE_WRONG)
def test_a_wrong_shape_is_refused_by_operation_and_input(operation: str, name: str, place: int | None) -> None:
    inputs, attributes = OPERATIONS[operation]
    right = inputs[name] if place is None else inputs[name][place]
    whole = name if place is None else f"{name}[{place}]"
    title = "Sangam" + operation.title().replace("_", "")
    for axis, wrong in _wrong(right):
        if {(operation, name, axis), (operation, whole, axis)} & FREE or (
            operation == "read_rows" and wrong == [9, H + 1]
        ):
            continue
        given = wrong if place is None else [*inputs[name][:place], wrong, *inputs[name][place + 1 :]]
        # Another input is refused if that one decides.
        told = re.escape(whole) if axis is None else r"\w+(\[\d\])?"
        got = re.escape(str(wrong)) if axis is None else r"(\[.*\]|\d+)"
        with pytest.raises(tf.errors.InvalidArgumentError, match=rf"{title}: {told}: .*\(got {got}\); .+"):
            _call(operation, inputs | {name: given}, attributes)


def _rows(dtype: Any = tf.float32) -> Any:
    return tf.Variable(tf.ones([9, H], dtype))


_WITHOUT_SHAPES: dict[str, tuple[str, Callable[[], Any], str, str]] = {
    "fewer widths than matrices": ("layer", lambda: {"WIDTHS": [H]}, "WIDTHS", "(got 1) ... 2"),
    "no column": ("layer", lambda: {"WIDTHS": [0, 3]}, "WIDTHS", "(got 0) ... 1"),
    "examples that members do not share": ("layer", lambda: {"MEMBERS": 2}, "w[0]", "[6, 8] ... 12"),
    "networks without an output": ("layer", lambda: {"COUNTS": [2, 2]}, "COUNTS", "(got 4) ... 3"),
    "fewer parts than features": ("inputs", lambda: {"FEATURES": [0, 2, 1]}, "FEATURES", "(got 3) ... 2"),
    "a negative number of features": ("inputs", lambda: {"FEATURES": [0, -2]}, "FEATURES", "(got -2) ... 0"),
    "an index without a part": ("inputs", lambda: {"FEATURES": [0, 0]}, "indexes", "(got 1) ... 0"),
    "a channel that does not exist": ("post", lambda: {"channel": 16}, "channel", "(got 16) ... 16"),
}


@pytest.mark.parametrize(("operation", "changed", "place", "value"), _WITHOUT_SHAPES.values(), ids=_WITHOUT_SHAPES)
def test_a_wrong_attribute_is_refused(operation: str, changed: Callable[[], Any], place: str, value: str) -> None:
    inputs, attributes = OPERATIONS[operation]
    title = f"Sangam{operation.title()}"
    with pytest.raises(tf.errors.InvalidArgumentError, match=place_and_value(f"{title}: {place}", value)):
        _call(operation, inputs, attributes | changed())


def test_only_a_float32_variable_has_rows() -> None:
    from sangam.trainer_module.native.library import operations

    numbers = tf.zeros([1], tf.int64)
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, 0)
    doubles, read = _rows(tf.float64), operations().sangam_read_rows
    with pytest.raises(tf.errors.InvalidArgumentError, match=place_and_value("SangamReadRows: rows", "(got 2) ... 1")):
        read(doubles.handle, numbers, COLUMNS=H)
    with pytest.raises(tf.errors.InvalidArgumentError, match="using the wrong type"):
        read(table.resource_handle, numbers, COLUMNS=H)


@pytest.mark.parametrize("counts", [[3], [-1], [5]], ids=["too few", "negative", "too many"])
def test_parts_of_a_message_add_up_to_it(counts: list[int]) -> None:
    from sangam.trainer_module.native.library import operations

    with pytest.raises(
        tf.errors.InvalidArgumentError, match=place_and_value("SangamPost: counts", f"(got {counts[0]})")
    ):
        operations().sangam_post(tf.ones([4]), counts, channel=1)


@pytest.mark.parametrize("number", [0, 1, -1, 2**32], ids=["none", "not yet posted", "negative", "too large"])
def test_a_message_that_was_not_posted_is_not_waited_for(number: int) -> None:
    from sangam.trainer_module.native.library import operations

    with pytest.raises(
        tf.errors.InvalidArgumentError, match=place_and_value("SangamCollectSum: number", f"(got {number})")
    ):
        operations().sangam_collect_sum(tf.constant(number, tf.int64), channel=3)


def test_a_message_is_not_read_as_another_type() -> None:
    from sangam.trainer_module.native.library import operations

    number = operations().sangam_post(tf.ones([3], tf.uint8), [3], channel=2)
    with pytest.raises(tf.errors.InvalidArgumentError, match=place_and_value("SangamCollect: rank 0", "(got 4) ... 2")):
        operations().sangam_collect(number, T=tf.float64, channel=2)
    np.testing.assert_array_equal(operations().sangam_collect(number, T=tf.uint8, channel=2).received, [1, 1, 1])
