"""What each member of an ensemble has of its own in a product whose matrix all members share.

Member k computes ((x * r_k) W) * s_k + b_k. Members are rows of one batch, member after member, [K * B, ...]: whatever
computes row by row need not know of them.

References: Wen, Tran, Ba: BatchEnsemble: An alternative approach to efficient ensemble and lifelong learning, ICLR
2020, section 3.1; Gorishniy, Kotelnikov, Babenko: TabM: Advancing tabular deep learning with parameter-efficient
ensembling, ICLR 2025, section 3: biases by member, and at the start random signs in r where it meets features and 1
elsewhere.
"""

from collections.abc import Callable
from typing import Literal

import tensorflow as tf

from trainer_module.dense.weights import Axis, Blocks, Weight, Weights, blocks_of, width_of

# Shape suffixes: K members, B batch, I inputs, O outputs.


def members_axis(members: int) -> Blocks:
    """Returns an axis of members: a warm start matches them by number. No feature's name has a slash."""
    return tuple((f"members/{number}", 1) for number in range(members))


class Factors:
    """r and s of a product; none for one member."""

    def __init__(self, matrix: str, inputs: Axis, outputs: Axis, members: int, *, experts: int | None = None):
        """Declares the factors.

        Args:
            matrix: the name of W.
            inputs: of W. Where they are features, r starts as random signs: else members would be equal forever.
            outputs: of W.
            members: how many.
            experts: W is one matrix for each of these.
        """
        self._r, self._s = f"{matrix}/r", f"{matrix}/s"
        self.weights: tuple[Weight, ...] = ()
        if members > 1:
            lead: tuple[Axis, ...] = (members_axis(members),) if experts is None else (experts, members_axis(members))
            self.weights = (
                _weight(self._r, (*lead, inputs), "ones" if isinstance(inputs, int) else "signs"),
                _weight(self._s, (*lead, outputs), "ones"),
            )

    def product(
        self, weights: Weights, x: tf.Tensor, w: tf.Tensor, *, matmul: Callable[..., tf.Tensor] = tf.matmul
    ) -> tf.Tensor:
        """Returns ((x * r) w) * s: [..., K * B, O], given [..., K * B, I]."""
        if not self.weights:
            return matmul(x, w)
        return by_member(tf.multiply, matmul(by_member(tf.multiply, x, weights[self._r]), w), weights[self._s])


class Bias:
    """One vector; with several members one for each."""

    def __init__(self, name: str, outputs: Axis, members: int):
        self._name, self._members = name, members
        axes: tuple[Axis, ...] = (outputs,) if members == 1 else (members_axis(members), outputs)
        self.weights = (_weight(name, axes, "zeros"),)

    def __call__(self, weights: Weights, y: tf.Tensor) -> tf.Tensor:
        """Returns y + b: [K * B, O]."""
        bias = weights[self._name]
        return tf.nn.bias_add(y, bias) if self._members == 1 else by_member(tf.add, y, bias)


def by_member(operation: Callable[[tf.Tensor, tf.Tensor], tf.Tensor], x: tf.Tensor, own: tf.Tensor) -> tf.Tensor:
    """Returns an operation of each row of x and what its member has.

    Args:
        operation: of two tensors that broadcast.
        x: [..., K * B, n].
        own: [..., K, n].

    >>> by_member(tf.add, tf.constant([[1.0], [2.0], [3.0], [4.0]]), tf.constant([[10.0], [20.0]])).numpy().tolist()
    [[11.0], [12.0], [23.0], [24.0]]
    """
    *lead, members, width = own.shape
    apart = operation(tf.reshape(x, [*lead, members, -1, width]), own[..., None, :])
    return tf.reshape(apart, [*lead, -1, width])


def _weight(name: str, axes: tuple[Axis, ...], start: Literal["zeros", "ones", "signs"]) -> Weight:
    return Weight(name, tuple(map(width_of, axes)), start, blocks=blocks_of(*axes))
