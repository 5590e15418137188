"""The model's input of users' candidates in two parts: columns that all rows of a user share, and those of each row.

The product of a matrix and the input is the sum of the parts' products, and that of the shared columns is the same for
all rows of a request. So a layer of the whole input is one of the own columns, with a bias for each request.
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import tensorflow as tf

from sangam.trainer_module.dense.members import biased, has_members, product
from sangam.trainer_module.dense.weights import Weights

# Shape suffixes: K members of an ensemble, B rows, Q requests, I inputs, J own ones, P picked ones, O outputs,
# R numbers of a row in which columns are linear.


@dataclass(frozen=True)
class Requests:
    """The requests whose candidates are the rows.

    Attributes:
        of_row_B: number of each row's request, int32.
        num: how many there are, int32 scalar.
        one_hot_BQ: 1 at each row's request.
    """

    of_row_B: tf.Tensor
    num: tf.Tensor
    one_hot_BQ: tf.Tensor

    @staticmethod
    def of(of_row_B: tf.Tensor) -> "Requests":
        """Takes the number of each row's request, in ascending order; without rows there is one request."""
        num = tf.reduce_max(tf.concat([of_row_B, [0]], 0)) + 1
        return Requests(of_row_B, num, tf.one_hot(of_row_B, num))

    def for_each_row(self, values: Any) -> Any:
        """Returns values of several requests, a tensor or lists, for each row; other values as they are."""
        count = values.nrows(tf.int32) if isinstance(values, tf.RaggedTensor) else tf.shape(values)[0]
        is_of_several = (self.num > 1) & (count != tf.size(self.of_row_B))
        return tf.cond(is_of_several, lambda: tf.gather(values, self.of_row_B), lambda: values)


@dataclass(frozen=True)
class Split:
    """Inputs of rows, of which some are the same in every row of a request.

    Attributes:
        requests: the rows' requests.
        shared_QI: the shared columns of each request; zeros in the others.
        own: the other columns side by side, [B, any]; of an ensemble, member after member.
        at_J: their positions, int64.
        whole: returns [members * B, I], for code that needs every column of every row.
        members: members of an ensemble.
        linear: products h [B, R] p [Q, R, I] that are added to the columns; none in an ensemble.
    """

    requests: Requests
    shared_QI: tf.Tensor
    own: tuple[tf.Tensor, ...]
    at_J: tf.Tensor
    whole: Callable[[], tf.Tensor]
    members: int = 1
    linear: tuple[tuple[tf.Tensor, tf.Tensor], ...] = ()

    @property
    def width(self) -> int:
        """Number of columns."""
        return int(self.shared_QI.shape[1])

    @property
    def dtype(self) -> tf.DType:
        """Type of the values."""
        return self.shared_QI.dtype

    @functools.cached_property
    def own_BJ(self) -> tf.Tensor:
        """The columns that rows have of their own."""
        return self.own[0] if len(self.own) == 1 else tf.concat(self.own, 1)

    def is_own_I(self) -> tf.Tensor:
        """Returns which columns rows have of their own: [I] bool."""
        return tf.scatter_nd(self.at_J[:, None], tf.ones_like(self.at_J), [self.width]) > 0

    def columns(self, picked: Sequence[int]) -> "Split":
        """Returns some of the columns; not of an ensemble."""
        picked_P = tf.constant(picked, tf.int64)
        at_J = tf.where(tf.gather(self.is_own_I(), picked_P))[:, 0]
        return Split(
            self.requests,
            tf.gather(self.shared_QI, picked_P, axis=1),
            (tf.gather(self.whole(), tf.gather(picked_P, at_J), axis=1),),
            at_J,
            lambda: tf.gather(self.whole(), picked_P, axis=1),
        )

    @functools.cached_property
    def of_rows(self) -> tf.Tensor:
        """All numbers of a row: of an ensemble its own columns, else also its request, and what is linear."""
        if self.members > 1:
            return self.own_BJ
        one_hot_BQ = self.requests.one_hot_BQ
        of_requests = [
            tf.reshape(one_hot_BQ[:, :, None] * h_BR[:, None], tf.stack([tf.shape(h_BR)[0], self.requests.num * r]))
            for h_BR, r in ((h_BR, int(h_BR.shape[1])) for h_BR, _ in self.linear)
        ]
        return tf.concat([one_hot_BQ, *self.own, *of_requests], 1)

    def product(self, weights: Weights, matrix: str, bias: str, *, matmul: Callable[..., tf.Tensor]) -> tf.Tensor:
        """Returns x W + b of the rows: [members * B, O].

        Args:
            weights: weights by name.
            matrix: name of W.
            bias: name of b; empty without.
            matmul: product of two matrices.
        """
        w_IO, at_J = weights[matrix], self.at_J
        of_requests = product(weights, matrix, tf.tile(self.shared_QI, [self.members, 1]))
        if bias:
            of_requests = biased(weights, bias, of_requests)
        if has_members(weights, matrix):
            own = {**weights, matrix: tf.gather(w_IO, at_J)}
            own[f"{matrix}/r"] = tf.gather(weights[f"{matrix}/r"], at_J, axis=-1)
            first_K1 = tf.range(self.members)[:, None] * self.requests.num
            of_row = tf.reshape(first_K1 + self.requests.of_row_B, [-1])
            return product(own, matrix, self.of_rows, matmul=matmul) + tf.gather(of_requests, of_row)
        # A row's request is a column of it, and a request's product a row of the matrix.
        of_linear = [tf.matmul(tf.reshape(p_QRI, [-1, self.width]), w_IO) for _, p_QRI in self.linear]
        return matmul(self.of_rows, tf.concat([of_requests, tf.gather(w_IO, at_J), *of_linear], 0))


Input: TypeAlias = tf.Tensor | Split
"""A model's input [B, I], as one tensor or in two parts."""


def whole(x: Input) -> tf.Tensor:
    """Returns every column of every row: [B, I]."""
    return x.whole() if isinstance(x, Split) else x


def side_by_side(parts: Sequence[Split]) -> Split:
    """Returns the columns of all parts, none of an ensemble."""
    shared_QI = tf.concat([part.shared_QI for part in parts], 1)
    starts = list(itertools.accumulate([part.width for part in parts[:-1]], initial=0))
    width = sum(part.width for part in parts)
    linear = (
        (h_BR, tf.pad(p_QRI, [[0, 0], [0, 0], [start, width - start - part.width]]))
        for part, start in zip(parts, starts, strict=True)
        for h_BR, p_QRI in part.linear
    )
    return Split(
        parts[0].requests,
        shared_QI,
        tuple(own for part in parts for own in part.own),
        tf.concat([part.at_J + start for part, start in zip(parts, starts, strict=True)], 0),
        functools.cache(lambda: tf.concat([part.whole() for part in parts], 1)),
        linear=tuple(linear),
    )


def of_rows(x_BI: tf.Tensor, requests: Requests) -> Split:
    """Returns columns that rows have all of their own."""
    width = int(x_BI.shape[1])
    shared_QI = tf.zeros(tf.stack([requests.num, width]), x_BI.dtype)
    return Split(requests, shared_QI, (x_BI,), tf.range(width, dtype=tf.int64), lambda: x_BI)


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
        x.requests,
        x_0.shared_QI * b_I + x.shared_QI,
        (x_0.own_BJ * own_BJ + x.own_BJ,),
        x.at_J,
        functools.cache(lambda: x_0.whole() * tf.nn.bias_add(tf.matmul(h_BR, u_RI), b_I) + x.whole()),
        linear=(*x.linear, (h_BR, u_RI * x_0.shared_QI[:, None])),
    )


def of_vectors(
    requests: Requests, shared_QND: tf.Tensor, own_BJD: tf.Tensor, at_J: tf.Tensor, whole: Callable[[], tf.Tensor]
) -> Split:
    """Returns vectors side by side.

    Args:
        requests: the rows' requests.
        shared_QND: the shared vectors of each request; zeros for the others.
        own_BJD: the other vectors.
        at_J: their numbers, int64.
        whole: see `Split`.
    """
    _, num, dim = shared_QND.shape
    rows, own = tf.unstack(tf.shape(own_BJD)[:2])
    return Split(
        requests,
        tf.reshape(shared_QND, [-1, num * dim]),
        (tf.reshape(own_BJD, tf.stack([rows, own * dim])),),
        tf.reshape(at_J[:, None] * dim + tf.range(dim, dtype=tf.int64), [-1]),
        whole,
    )


def with_zero(x: Split) -> Split:
    """Returns the same with a zero of each row that is added to the first column; not of an ensemble.

    Rows may have no columns of their own, and oneDNN ends the process at a product without columns.
    """
    zero_B1 = tf.zeros(tf.stack([tf.size(x.requests.of_row_B), 1]))
    return replace(x, own=(zero_B1, *x.own), at_J=tf.concat([[0], x.at_J], 0))


def for_members(x: Input, members: int) -> Input:
    """Returns the rows of each member of an ensemble, member after member."""
    if not isinstance(x, Split):
        return tf.tile(x, [members, 1])
    x = with_zero(x)
    own = (tf.tile(x.own_BJ, [members, 1]),)
    return replace(x, own=own, whole=lambda: tf.tile(x.whole(), [members, 1]), members=members)
