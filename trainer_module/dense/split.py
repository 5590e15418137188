"""The model's input of one user's candidates in two parts: columns that all rows share, and those of each row.

The product of a matrix and the input is the sum of the parts' products, and that of the shared row is the same for all
rows: a bias. So a layer of the whole input is one of the own columns, with another bias.
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import tensorflow as tf

from sangam.trainer_module.dense.members import has_members, product
from sangam.trainer_module.dense.weights import Weights

# Shape suffixes: K members of an ensemble, B rows, I inputs, J own ones, P picked ones, O outputs, R numbers of a row
# in which columns are linear.


@dataclass(frozen=True)
class Split:
    """Inputs of rows, of which some are the same in every row.

    Attributes:
        shared_1I: the shared columns of every row; zeros in the others.
        own_BJ: the other columns; of an ensemble, member after member.
        at_J: their positions, int64.
        whole: returns [members * B, I], for code that needs every column of every row.
        members: members of an ensemble.
        linear: products h [B, R] p [R, I] that are added to the columns; none in an ensemble.
    """

    shared_1I: tf.Tensor
    own_BJ: tf.Tensor
    at_J: tf.Tensor
    whole: Callable[[], tf.Tensor]
    members: int = 1
    linear: tuple[tuple[tf.Tensor, tf.Tensor], ...] = ()

    @property
    def width(self) -> int:
        """Number of columns."""
        return int(self.shared_1I.shape[1])

    @property
    def dtype(self) -> tf.DType:
        """Type of the values."""
        return self.own_BJ.dtype

    def is_own_I(self) -> tf.Tensor:
        """Returns which columns rows have of their own: [I] bool."""
        return tf.scatter_nd(self.at_J[:, None], tf.ones_like(self.at_J), [self.width]) > 0

    def columns(self, picked: Sequence[int]) -> "Split":
        """Returns some of the columns; not of an ensemble."""
        picked_P = tf.constant(picked, tf.int64)
        at_J = tf.where(tf.gather(self.is_own_I(), picked_P))[:, 0]
        return Split(
            tf.gather(self.shared_1I, picked_P, axis=1),
            tf.gather(self.whole(), tf.gather(picked_P, at_J), axis=1),
            at_J,
            lambda: tf.gather(self.whole(), picked_P, axis=1),
        )

    def of_rows(self) -> tf.Tensor:
        """Returns all numbers that rows have of their own: [members * B, J + all R]."""
        return tf.concat([self.own_BJ, *(h_BR for h_BR, _ in self.linear)], 1) if self.linear else self.own_BJ

    def of_own(self, weights: Weights, matrix: str, bias: str, name: str) -> Weights:
        """Returns the weights of the same layer over `of_rows` alone, whose bias has the shared columns' product in it.

        Args:
            weights: weights by name.
            matrix: name of the layer's matrix, also of the one returned.
            bias: name of its bias; empty without.
            name: name of the bias returned: [O], or [K, O] for an ensemble.
        """
        sum_KO = product(weights, matrix, tf.tile(self.shared_1I, [self.members, 1]))
        b = sum_KO if has_members(weights, matrix) else tf.reshape(sum_KO, [-1])
        w_IO = weights[matrix]
        w = [tf.gather(w_IO, self.at_J), *(tf.matmul(p_RI, w_IO) for _, p_RI in self.linear)]
        own = {matrix: tf.concat(w, 0) if self.linear else w[0], name: b + weights[bias] if bias else b}
        if has_members(weights, matrix):
            own[f"{matrix}/r"] = tf.gather(weights[f"{matrix}/r"], self.at_J, axis=-1)
        return {**weights, **own}


Input: TypeAlias = tf.Tensor | Split
"""A model's input [B, I], as one tensor or in two parts."""


def whole(x: Input) -> tf.Tensor:
    """Returns every column of every row: [B, I]."""
    return x.whole() if isinstance(x, Split) else x


def side_by_side(parts: Sequence[Split]) -> Split:
    """Returns the columns of all parts, none of an ensemble."""
    shared_1I = tf.concat([part.shared_1I for part in parts], 1)
    starts = list(itertools.accumulate([part.width for part in parts[:-1]], initial=0))
    width = sum(part.width for part in parts)
    linear = (
        (h_BR, tf.pad(p_RI, [[0, 0], [start, width - start - part.width]]))
        for part, start in zip(parts, starts, strict=True)
        for h_BR, p_RI in part.linear
    )
    return Split(
        shared_1I,
        tf.concat([part.own_BJ for part in parts], 1),
        tf.concat([part.at_J + start for part, start in zip(parts, starts, strict=True)], 0),
        functools.cache(lambda: tf.concat([part.whole() for part in parts], 1)),
        linear=tuple(linear),
    )


def model_input(parts: Sequence[Split]) -> Split:
    """Returns the columns of all parts, with a zero of each row that is added to the first one.

    Without it, rows may have nothing of their own, and oneDNN ends the process at a product of no columns.
    """
    num_rows = tf.shape(parts[0].own_BJ)[0]
    zero = Split(
        tf.zeros([1, 0]), tf.zeros(tf.stack([num_rows, 1])), tf.constant([0], tf.int64), lambda: tf.zeros([num_rows, 0])
    )
    return side_by_side([zero, *parts])


def of_rows(x_BI: tf.Tensor) -> Split:
    """Returns columns that rows have all of their own."""
    width = int(x_BI.shape[1])
    return Split(tf.zeros([1, width], x_BI.dtype), x_BI, tf.range(width, dtype=tf.int64), lambda: x_BI)


def crossed(x_0: Split, x: Split, h_BR: tf.Tensor, u_RI: tf.Tensor, b_I: tf.Tensor) -> Split:
    """Returns x_0 * (h U + b) + x: the shared columns of x_0 make it linear in h.

    Args:
        x_0: input of all crosses, without `linear`.
        x: output of the cross before, of the same own columns.
        h_BR: any numbers of the rows.
        u_RI: matrix.
        b_I: bias.
    """
    own_BJ = tf.nn.bias_add(tf.matmul(h_BR, tf.gather(u_RI, x.at_J, axis=1)), tf.gather(b_I, x.at_J))
    return Split(
        x_0.shared_1I * b_I + x.shared_1I,
        x_0.own_BJ * own_BJ + x.own_BJ,
        x.at_J,
        functools.cache(lambda: x_0.whole() * tf.nn.bias_add(tf.matmul(h_BR, u_RI), b_I) + x.whole()),
        linear=(*x.linear, (h_BR, u_RI * x_0.shared_1I)),
    )


def of_vectors(shared_1ND: tf.Tensor, own_BJD: tf.Tensor, at_J: tf.Tensor, whole: Callable[[], tf.Tensor]) -> Split:
    """Returns vectors side by side.

    Args:
        shared_1ND: the shared vectors of every row; zeros for the others.
        own_BJD: the other vectors.
        at_J: their numbers, int64.
        whole: see `Split`.
    """
    _, num, dim = shared_1ND.shape
    rows, own = tf.unstack(tf.shape(own_BJD)[:2])
    return Split(
        tf.reshape(shared_1ND, [1, num * dim]),
        tf.reshape(own_BJD, tf.stack([rows, own * dim])),
        tf.reshape(at_J[:, None] * dim + tf.range(dim, dtype=tf.int64), [-1]),
        whole,
    )


def for_members(x: Input, members: int) -> Input:
    """Returns the rows of each member of an ensemble, member after member."""
    if not isinstance(x, Split):
        return tf.tile(x, [members, 1])
    return replace(
        x, own_BJ=tf.tile(x.own_BJ, [members, 1]), whole=lambda: tf.tile(x.whole(), [members, 1]), members=members
    )
