"""The own factors and biases of each member of an ensemble in a product whose matrix all members share.

Member k computes ((x * r_k) W) * s_k + b_k. Members are rows of one batch, member after member, [K * B, ...]: code
that computes row by row need not know of them.

References: Wen, Tran, Ba: BatchEnsemble: An alternative approach to efficient ensemble and lifelong learning, ICLR
2020, section 3.1; Gorishniy, Kotelnikov, Babenko: TabM: Advancing tabular deep learning with parameter-efficient
ensembling, ICLR 2025, section 3: biases by member, and at the start random signs in r where it meets features and 1
elsewhere.
"""

from collections.abc import Callable

import tensorflow as tf

from sangam.trainer_module.dense.weights import Weights

# Shape suffixes: K members, B batch, I inputs, O outputs.


def has_members(weights: Weights, matrix: str) -> bool:
    """Returns whether a matrix is shared by the members of an ensemble."""
    return f"{matrix}/r" in weights


def members_of(weights: Weights, matrix: str) -> int:
    """Returns the members of an ensemble that share a matrix; 1 without."""
    return int(weights[f"{matrix}/r"].shape[-2]) if has_members(weights, matrix) else 1


def matrix_of_members(weights: Weights, matrix: str) -> tf.Tensor:
    """Returns diag(r_k) W diag(s_k) of each member, below one another, with which x gives the same product: [K * I, O].

    For a batch this is a smaller product of factors than those of inputs and outputs.
    """
    w = weights[matrix]
    if not has_members(weights, matrix):
        return w
    w_KIO = weights[f"{matrix}/r"][:, :, None] * w * weights[f"{matrix}/s"][:, None, :]
    return tf.reshape(w_KIO, [-1, w.shape[1]])


def product(
    weights: Weights,
    matrix: str,
    x: tf.Tensor,
    *,
    matmul: Callable[..., tf.Tensor] = tf.matmul,
) -> tf.Tensor:
    """Returns x W, or with members ((x * r) W) * s: [..., K * B, O], given [..., K * B, I].

    Args:
        weights: weights by name.
        matrix: name of W.
        x: input.
        matmul: product of x and W.
    """
    w = weights[matrix]
    if not has_members(weights, matrix):
        return matmul(x, w)
    scaled = by_member(tf.multiply, x, weights[f"{matrix}/r"])
    return by_member(tf.multiply, matmul(scaled, w), weights[f"{matrix}/s"])


def biased(weights: Weights, name: str, y: tf.Tensor) -> tf.Tensor:
    """Returns y + b, with one b or one for each member: [K * B, O]."""
    bias = weights[name]
    return tf.nn.bias_add(y, bias) if len(bias.shape) == 1 else by_member(tf.add, y, bias)


def by_member(operation: Callable[[tf.Tensor, tf.Tensor], tf.Tensor], x: tf.Tensor, own: tf.Tensor) -> tf.Tensor:
    """Returns an operation of each row of x and its member's own row.

    Args:
        operation: operation of two tensors that broadcast.
        x: [..., K * B, n].
        own: [..., K, n].

    >>> by_member(tf.add, tf.constant([[1.0], [2.0], [3.0], [4.0]]), tf.constant([[10.0], [20.0]])).numpy().tolist()
    [[11.0], [12.0], [23.0], [24.0]]
    """
    *lead, members, width = own.shape
    width = tf.shape(own)[-1] if width is None else width
    apart = operation(tf.reshape(x, [*lead, members, -1, width]), own[..., None, :])
    return tf.reshape(apart, [*lead, -1, width])
