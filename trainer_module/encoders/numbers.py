"""Numbers as vectors: those with encodings of one shape are encoded at once.

Reference: Gorishniy, Rubachev, Babenko: On embeddings for numerical features in tabular deep learning, NeurIPS 2022.
"""

import functools
import math
from typing import assert_never

import tensorflow as tf

from sangam.schemas.derived.encodings import EncodedTogether, encoded_together
from sangam.schemas.parts.weight import Blocks
from sangam.schemas.spec import RankerSpec
from sangam.schemas.spec.encodings import PeriodicEncoding, PiecewiseLinearEncoding
from sangam.trainer_module.dense import choice, fused
from sangam.trainer_module.dense.split import Input, Split, of_vectors, side_by_side
from sangam.trainer_module.dense.weights import Weights

# Shape suffixes: B batch, I floats, N numbers encoded at once, J of them that rows have of their own, T bins,
# K frequencies, E inputs of a number's linear layer, D width of its vector.


class EncodedNumbers:
    """The floats of a batch, each number with an encoding replaced by its vector: see `encodings.float_inputs`."""

    def __init__(self, spec: RankerSpec, floats: Blocks):
        """Takes a spec, and the features that are floats in a batch with their widths."""
        self._layers = [_Layer(together) for together in encoded_together(spec)]
        starts, start = {}, 0
        for name, width in floats:
            starts[name] = start
            start += width
        encoded = {name for layer in self._layers for name in layer.features}
        self._plain = [starts[name] + each for name, width in floats if name not in encoded for each in range(width)]
        self._firsts = [[starts[name] for name in layer.features] for layer in self._layers]

    def __call__(self, weights: Weights, floats_BI: Input) -> Input:
        """Returns [batch, floats]."""
        if not self._layers:
            return floats_BI
        if isinstance(floats_BI, Split):
            return self._split(weights, floats_BI)
        parts = [tf.gather(floats_BI, self._plain, axis=1)] if self._plain else []
        for layer, firsts in zip(self._layers, self._firsts, strict=True):
            numbers_BN = tf.gather(floats_BI, firsts, axis=1)
            missing_BN = tf.gather(floats_BI, [first + 1 for first in firsts], axis=1) if layer.has_missing else None
            parts.append(layer(weights, numbers_BN, missing_BN))
        return tf.concat(parts, 1)

    def _split(self, weights: Weights, floats: Split) -> Split:
        parts = [floats.columns(self._plain)] if self._plain else []
        for layer, firsts in zip(self._layers, self._firsts, strict=True):
            missing = floats.columns([first + 1 for first in firsts]) if layer.has_missing else None
            parts.append(layer.of_split(weights, floats.columns(firsts), missing))
        return side_by_side(parts)


class _Layer:
    """relu(e W + b) for each of several numbers, with e of its encoding, and 1 behind it where it is missing."""

    def __init__(self, together: EncodedTogether):
        self._name, self._encoding = together.name, together.encoding
        self.features, self.has_missing = together.features, together.has_missing

    def __call__(self, weights: Weights, numbers_BN: tf.Tensor, missing_BN: tf.Tensor | None) -> tf.Tensor:
        """Returns [batch, N * D]."""
        sums_NBD = self._sums(weights, tf.transpose(numbers_BN), missing_BN) + weights[f"{self._name}/b"][:, None]
        vectors_NBD = tf.nn.relu(sums_NBD)
        num, dim = len(self.features), self._encoding.dim
        return tf.reshape(tf.transpose(vectors_NBD, [1, 0, 2]), [-1, num * dim])

    def of_split(self, weights: Weights, numbers: Split, missing: Split | None) -> Split:
        """Returns the same in two parts; each number is encoded once for a request, or for each row."""
        parts = [f"{self._name}/{part}" for part in ("frequencies", "w", "b")]
        own = {name: tf.gather(weights[name], numbers.at_J) for name in parts if name in weights}
        own_BJD = self._vectors(own, numbers.own_BJ, missing and missing.own_BJ)
        shared_QND = self._vectors(weights, numbers.shared_QI, missing and missing.shared_QI)
        shared_QND = tf.where(numbers.is_own_I()[:, None], 0.0, shared_QND)
        whole = functools.cache(lambda: self(weights, numbers.whole(), missing and missing.whole()))
        return of_vectors(numbers.requests, shared_QND, own_BJD, numbers.at_J, whole)

    def _vectors(self, weights: Weights, numbers_BN: tf.Tensor, missing_BN: tf.Tensor | None) -> tf.Tensor:
        """Returns the vectors of any of the numbers, whose weights are given: [B, N, D]."""
        if isinstance(self._encoding, PiecewiseLinearEncoding):
            w, bins = weights[f"{self._name}/w"], self._encoding.bins
            sums_BND = running_sums(numbers_BN, w[:, :bins])
            if missing_BN is not None:
                sums_BND += missing_BN[:, :, None] * w[:, bins]
        else:
            sums_BND = tf.transpose(self._sums(weights, tf.transpose(numbers_BN), missing_BN), [1, 0, 2])
        return tf.nn.relu(sums_BND + weights[f"{self._name}/b"])

    def _sums(self, weights: Weights, numbers_NB: tf.Tensor, missing_BN: tf.Tensor | None) -> tf.Tensor:
        """Returns e W: [N, B, D]."""
        w, numbers_NB1 = weights[f"{self._name}/w"], numbers_NB[:, :, None]
        match self._encoding:
            case PiecewiseLinearEncoding() if fused.applies_to(numbers_NB):
                choice.remember([f"{self._name}/w"], "", w.dtype)
                bins = w.shape[1] - (0 if missing_BN is None else 1)
                sums_NBD = fused.piecewise_linear(numbers_NB, w[:, :bins])
                return sums_NBD if missing_BN is None else sums_NBD + tf.transpose(missing_BN)[:, :, None] * w[:, bins:]
            case PiecewiseLinearEncoding(bins=bins):
                encoded_NBE = passed_shares(numbers_NB1, bins)
            case PeriodicEncoding():
                encoded_NBE = sines_and_cosines(numbers_NB1, weights[f"{self._name}/frequencies"][:, None])
            case _:
                assert_never(self._encoding)
        if missing_BN is not None:
            encoded_NBE = tf.concat([encoded_NBE, tf.transpose(missing_BN)[:, :, None]], 2)
        return encoded_NBE @ w


def passed_shares(numbers_1: tf.Tensor, bins: int) -> tf.Tensor:
    """Returns the share of each bin that a number has passed: [..., bins]: section 3.2 of the paper.

    Args:
        numbers_1: in coordinates of bins, so that 2.5 is the middle of the third: [..., 1]. Below 0 and above `bins`
            the lines of the first and of the last bin continue.
        bins: number of bins.
    """
    shares_T = numbers_1 - tf.range(bins, dtype=tf.float32)
    lowest_T = tf.constant([-math.inf, *[0.0] * (bins - 1)])
    highest_T = tf.constant([*[1.0] * (bins - 1), math.inf])
    return tf.minimum(tf.maximum(shares_T, lowest_T), highest_T)


def running_sums(numbers_BN: tf.Tensor, w_NTD: tf.Tensor) -> tf.Tensor:
    """Returns the products of `passed_shares` and W: [B, N, D].

    Of T shares all but one are 0 or 1: a product is the sum of W's first rows and a part of one more. With 64 bins and
    2,000 rows this takes a third of the product's time.
    """
    num, (_, bins, dim) = tf.shape(w_NTD)[0], w_NTD.shape
    # As a whole number a second time: NaN has none.
    bin_BN = tf.cast(tf.clip_by_value(tf.floor(numbers_BN), 0.0, bins - 1.0), tf.int32)
    bin_BN = tf.clip_by_value(bin_BN, 0, bins - 1)
    row_BN = bin_BN + tf.range(num) * bins
    part_BN1 = (numbers_BN - tf.cast(bin_BN, tf.float32))[:, :, None]
    before = tf.reshape(tf.cumsum(w_NTD, axis=1, exclusive=True), [-1, dim])
    return tf.gather(before, row_BN) + part_BN1 * tf.gather(tf.reshape(w_NTD, [-1, dim]), row_BN)


def sines_and_cosines(numbers_1: tf.Tensor, frequencies_K: tf.Tensor) -> tf.Tensor:
    """Returns sin(2 pi c x) for each frequency c, then cos(2 pi c x): [..., 2 K]: section 3.3 of the paper."""
    angles_K = (2.0 * math.pi) * (numbers_1 * frequencies_K)
    return tf.concat([tf.sin(angles_K), tf.cos(angles_K)], -1)
