"""Calls the operations with random sizes and numbers and compares them with sums in float64 or with TensorFlow.

`python -m tests.trainer_module.native.fuzz LIBRARY CASES SEED`. Sizes are 0, 1, small or large.
"""

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.trainer_module.dense import fused, native_layer
from sangam.trainer_module.embedding.bookkeeping import merge_books
from sangam.trainer_module.embedding.row_optimizers import adam, adam_rate
from sangam.trainer_module.encoders.numbers import passed_shares
from sangam.trainer_module.native import library

Floats = NDArray[np.float64]
_SMALL = 1e-30


class Fuzz:
    """Random cases.

    Attributes:
        worst: largest relative error of each kind of number.
    """

    def __init__(self, seed: int):
        self._random = np.random.default_rng(seed)
        self.worst: dict[str, float] = {}

    def run(self, cases: int) -> None:
        """Runs all kinds of cases in turn."""
        kinds = [self.inputs, self.mixtures, self.piecewise, self.rows, self.books]
        if fused.has_units_for(tf.float32):
            layers = [functools.partial(self.layer, tf.float32, are_inputs_first=first) for first in (False, True)]
            kinds = [*layers, *kinds]
        for case in range(cases):
            kinds[case % len(kinds)]()

    def layer(self, dtype: tf.DType, *, are_inputs_first: bool) -> None:
        """Compares a layer and its gradients; one number of x may be none."""
        batch, inputs, random = self._size(1200), self._positive(300), self._random
        x = self._normal(batch, inputs)
        has_special = batch > 0 and random.random() < 0.1
        if has_special:
            x[random.integers(batch), random.integers(inputs)] = random.choice([np.nan, np.inf, -np.inf])
        parts, weights = [], []
        for _ in range(random.integers(1, 4)):
            count, width = int(random.integers(1, 5)), self._positive(150)
            weights += [self._normal(inputs, count * width), self._normal(count * width)]
            parts.append((count, bool(random.integers(2))))
        given = [tf.cast(each, dtype) for each in (x, *weights)]
        with fused.in_training(are_inputs_first=are_inputs_first), tf.GradientTape() as tape:
            tape.watch(given)
            pairs = zip(given[1::2], given[2::2], parts, strict=True)
            outputs = native_layer.layer(given[0], [native_layer.Networks(w, b, *part) for w, b, part in pairs])
            flat = [output for part in outputs for output in part]
            # The gradients are of this sum, traced meanwhile.
            of_flat = [self._normal(*output.shape) for output in flat]
        with fused.in_training(are_inputs_first=are_inputs_first):
            gradients = tape.gradient(flat, given, output_gradients=[tf.cast(each, dtype) for each in of_flat])
        of_x, size_of_x, exact = np.zeros(x.shape), np.zeros(x.shape), [_exact(each) for each in given]
        at = 0
        with np.errstate(invalid="ignore"):
            for m, (count, has_relu) in enumerate(parts):
                w, b = exact[1 + 2 * m], exact[2 + 2 * m]
                y, size = exact[0] @ w + b, np.abs(exact[0]) @ np.abs(w) + np.abs(b)
                found = np.concatenate([_exact(output) for output in outputs[m]], axis=1)
                self._compare("layer", found, np.maximum(y, 0) if has_relu else y, size)
                g = np.concatenate(of_flat[at : at + count], axis=1).astype(np.float64)
                g = np.where(found > 0, g, 0) if has_relu else g
                at += count
                if not has_special:
                    of_w, size = exact[0].T @ g, np.abs(exact[0].T) @ np.abs(g)
                    self._compare("layer's w", gradients[1 + 2 * m], of_w, size)
                self._compare("layer's b", gradients[2 + 2 * m], g.sum(0), np.abs(g).sum(0))
                of_x += g @ w.T
                size_of_x += np.abs(g) @ np.abs(w.T)
        self._compare("layer's x", gradients[0], of_x, size_of_x)

    def inputs(self) -> None:
        """Compares numbers and embeddings side by side, and their gradients."""
        random, batch, dtype = self._random, self._size(500), self._dtype()
        given, parts, columns, indexes = [], [], [], []
        for _ in range(random.integers(1, 5)):
            is_gathered, dim = random.random() < 0.5, self._positive(40)
            rows, features = (self._positive(300), int(random.integers(1, 6))) if is_gathered else (batch, 0)
            numbers = self._normal(rows, dim)
            index = random.integers(0, rows, size=batch * features).astype(np.int32) if is_gathered else None
            given.append(tf.constant(numbers))
            parts.append(given[-1] if index is None else fused.Gathered(given[-1], tf.constant(index), features))
            columns.append(numbers if index is None else numbers[index].reshape(batch, features * dim))
            indexes.append(index)
        with tf.GradientTape() as tape:
            tape.watch(given)
            x = fused.inputs(parts, dtype)
        np.testing.assert_array_equal(_exact(x), _exact(tf.cast(np.concatenate(columns, axis=1), dtype)))
        g = tf.cast(self._normal(*x.shape), dtype)
        gradients = tape.gradient(x, given, output_gradients=g)
        starts = np.cumsum([each.shape[1] for each in columns])[:-1]
        for gradient, numbers, index, its in zip(
            gradients, given, indexes, np.split(_exact(g), starts, axis=1), strict=True
        ):
            at = np.arange(batch) if index is None else index
            total, size, its = np.zeros(numbers.shape), np.zeros(numbers.shape), its.reshape(-1, numbers.shape[1])
            np.add.at(total, at, its)
            np.add.at(size, at, np.abs(its))
            self._compare("inputs' gradient", gradient, total, size, most=1e-5)

    def mixtures(self) -> None:
        """Compares mixtures of experts and their gradients."""
        random, dtype = self._random, self._dtype()
        batch, width, (experts, tasks) = self._size(300), self._positive(200), random.integers(1, 6, size=2)
        given = [tf.cast(self._normal(batch, tasks, experts), dtype)]
        given += [tf.cast(self._normal(batch, width), dtype) for _ in range(experts)]
        with tf.GradientTape() as tape:
            tape.watch(given)
            mixed = fused.mixtures(given[0], given[1:])
        of_mixed = [tf.cast(self._normal(batch, width), dtype) for _ in mixed]
        gradients = tape.gradient(mixed, given, output_gradients=of_mixed)
        gates, x, g = _exact(given[0]), _stacked(given[1:]), _stacked(of_mixed)
        most = 1e-2 if dtype == tf.bfloat16 else 1e-5
        for name, found, a, b in (
            ("mixtures", _stacked(mixed), gates, x),
            ("mixtures' gates", _exact(gradients[0]), g, x.swapaxes(1, 2)),
            ("mixtures' experts", _stacked(gradients[1:]), gates.swapaxes(1, 2), g),
        ):
            self._compare(f"{name} in {dtype.name}", found, a @ b, np.abs(a) @ np.abs(b), most=most)

    def piecewise(self) -> None:
        """Compares piecewise linear numbers with the product of their shares; numbers may be far outside the bins."""
        random = self._random
        count, batch, bins, dim = self._positive(8), self._size(200), int(random.integers(1, 70)), self._positive(40)
        numbers = random.uniform(-3, bins + 3, size=(count, batch)).astype(np.float32)
        if batch and random.random() < 0.5:
            special = [1e30, -1e30, 2.0**31, 2.0**63, 1e-40, -0.0, bins, bins - 1, 0]
            numbers[random.integers(count), random.integers(batch)] = random.choice(special)
        w, g = tf.constant(self._normal(count, bins, dim)), self._normal(count, batch, dim)
        found = self._with_gradient(lambda w: fused.piecewise_linear(tf.constant(numbers), w), w, g)
        exact = self._with_gradient(lambda w: passed_shares(tf.constant(numbers)[:, :, None], bins) @ w, w, g)
        largest = np.maximum(np.abs(numbers), 1).max(axis=1, initial=1)[:, None, None]
        for one, other, terms in zip(found, exact, (bins, batch), strict=True):
            size = np.maximum(np.abs(_exact(other)), largest) * (terms + 1)
            self._compare("piecewise linear", one, _exact(other), size, most=1e-5)

    def rows(self) -> None:
        """Compares an update by Adam, and reading, with TensorFlow's."""
        random, rows, dim = self._random, self._positive(2000), self._positive(130)
        count = min(self._size(500), rows)
        base = np.concatenate([self._normal(rows, 2 * dim), random.random(size=(rows, dim), dtype=np.float32)], axis=1)
        numbers, g = random.permutation(rows)[:count].astype(np.int64), self._normal(count, dim)
        if count:
            g[random.integers(count)] *= np.float32(random.choice([1, 1e-30, 1e-38, 1e20, 0]))
        step, betas = tf.constant(int(random.integers(1, 10**6)), tf.int64), (0.9, 0.999)
        settings: Any = {"rate": 0.01, "betas": betas}
        w, m, v = tf.split(tf.gather(tf.constant(base), numbers), 3, axis=1)
        parts = list(adam(w, m, v, tf.constant(g), step, **settings, epsilon=1e-7))
        expected = tf.tensor_scatter_nd_update(tf.constant(base), numbers[:, None], tf.concat(parts, 1)).numpy()
        variable = tf.Variable(base)
        fused.adam_rows(variable, tf.constant(numbers), tf.constant(g), adam_rate(step, **settings), betas, 1e-7)
        found = variable.numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-30)
        columns = int(random.integers(1, base.shape[1] + 1))
        read = fused.read_rows(variable, tf.constant(numbers), columns)
        np.testing.assert_array_equal(_bits(read.numpy()), _bits(found[numbers][:, :columns]))

    def books(self) -> None:
        """Compares merged books with exact numbers."""
        rows = self._positive(2000)
        count = min(self._size(500), rows)
        before, newest, occurrences = (self._usage(size) for size in (2 * rows, count, count))
        numbers = self._random.permutation(rows)[:count].astype(np.int64)
        books = tf.Variable(before.reshape(rows, 2))
        merge_books(books, tf.constant(numbers), tf.constant(newest), tf.constant(occurrences))
        expected = before.reshape(rows, 2).astype(np.int64)
        expected[numbers, 0] = np.maximum(expected[numbers, 0], newest)
        expected[numbers, 1] = np.minimum(expected[numbers, 1] + occurrences, 2**31 - 1)
        expected[0] = before[:2]
        np.testing.assert_array_equal(books.numpy(), expected)

    def _size(self, most: int) -> int:
        which = self._random.random()
        if which < 0.2:
            return int(which < 0.1)
        return (
            int(self._random.integers(2, 70 if which < 0.6 else most))
            if most > 70
            else int(self._random.integers(most))
        )

    def _positive(self, most: int) -> int:
        return max(1, self._size(most))

    def _normal(self, *shape: int) -> NDArray[np.float32]:
        return self._random.normal(size=shape).astype(np.float32)

    def _usage(self, count: int) -> NDArray[np.int32]:
        return self._random.integers(0, 2**31 - 1, size=count).astype(np.int32)

    def _dtype(self) -> tf.DType:
        return tf.bfloat16 if self._random.random() < 0.5 else tf.float32

    def _with_gradient(self, compute: Callable[[tf.Tensor], tf.Tensor], w: tf.Tensor, g: Any) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(w)
            y = compute(w)
        return [y, tape.gradient(y, w, output_gradients=tf.constant(g))]

    def _compare(self, name: str, found: Any, exact: Floats, size: Floats, most: float = 3e-6) -> None:
        """Compares sums by the size of their parts; what is not finite must be equal."""
        found = _exact(found)
        is_finite = np.isfinite(exact)
        np.testing.assert_array_equal(found[~is_finite], exact[~is_finite], name)
        errors = np.abs(found - exact)[is_finite] / (size[is_finite] + _SMALL)
        worst = float(errors.max(initial=0))
        assert worst <= most, f"{name}: error {worst} above {most}, shape {found.shape}"
        self.worst[name] = max(worst, self.worst.get(name, 0.0))


def _exact(x: Any) -> Floats:
    exact: Floats = tf.cast(x, tf.float64).numpy()
    return exact


def _stacked(x: Any) -> Floats:
    return np.stack([_exact(each) for each in x], axis=1)


def _bits(x: Any) -> NDArray[np.int32]:
    return np.ascontiguousarray(x, np.float32).view(np.int32)


def main(path: str, cases: str, seed: str) -> None:
    """Runs cases with the operations of a library."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    library.library = lambda: Path(path)
    fuzz = Fuzz(int(seed))
    fuzz.run(int(cases))
    print(f"{cases} cases", {name: f"{worst:.1e}" for name, worst in sorted(fuzz.worst.items())})


if __name__ == "__main__":
    main(*sys.argv[1:])
