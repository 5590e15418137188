"""Numbers: clipped, logged, and then scaled or placed among bins by statistics over the training split."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import tensorflow as tf

from sangam.schemas.contracts.statistics import Analyzed, Bins, Scale
from sangam.schemas.spec.encodings import PiecewiseLinearEncoding
from sangam.schemas.spec.features import (
    BucketsFeature,
    HistoryFeature,
    NumericFeature,
    OneNumber,
    learns_missing,
    replacement_of,
)
from sangam.trainer_module.transforms.bins import num_at_most, padded
from sangam.trainer_module.transforms.stacked import (
    Column,
    InStack,
    Logged,
    Pair,
    Rows,
    one_row,
    side_by_side,
    stacked,
)

Features = Mapping[str, OneNumber]
Place = Callable[[Features, Rows, Mapping[str, Analyzed]], tf.Tensor]
"""Function that scales or bins numbers by their features' statistics, and replaces a missing one, NaN: [R]."""

_AT_ONCE = 64
"""A multiple of the numbers that any CPU computes at a time."""
_HIGHEST = 3.4028234663852886e38

# Shape suffixes: F features side by side; R rows of all their columns; B batch in training; E ends of bins.


def logged(features: Sequence[NumericFeature | HistoryFeature | BucketsFeature], columns: Sequence[Logged]) -> Rows:
    """Returns the logged numbers, NaN where there is neither a finite number nor a default."""
    rows = _numbers(columns)
    missing_R = rows.each(list(map(replacement_of, features)))
    return rows.with_values(tf.where(tf.math.is_finite(rows.values_R), rows.values_R, missing_R))


def _numbers(columns: Sequence[Logged]) -> Rows:
    """Returns columns of any types as float32, NaN where a row has no value."""
    found: dict[int, tf.Tensor] = {}
    for kind in dict.fromkeys(map(_kind, columns)):
        chosen = [number for number, column in enumerate(columns) if _kind(column) == kind]
        values = stacked([columns[number] for number in chosen])
        rows = replace(values, values_n=tf.cast(values.values_n, tf.float32)).one_each(math.nan)
        if len(chosen) == len(columns):
            return rows
        found |= zip(chosen, rows.parts(), strict=True)
    return side_by_side([found[number] for number in range(len(columns))])


def _kind(column: Logged) -> tuple[tf.DType, bool]:
    return column.dtype, isinstance(column, InStack)


def _log1p(x_R: tf.Tensor) -> tf.Tensor:
    """Returns log(1 + x), equal for equal numbers in any batch.

    TensorFlow computes several at a time, and those left over one by one, with another last bit: none may be left.
    """
    size = tf.size(x_R)
    return tf.math.log1p(tf.pad(x_R, [[0, tf.math.floormod(-size, _AT_ONCE)]]))[:size]


class Numbers:
    """Features of one float each, with a second float, 1 for a missing number, if they learn from missing numbers."""

    def __init__(self, features: Features, rows: Rows, place: Place):
        """Takes the features' numbers in their order."""
        self._features, self._place = features, place
        clips = [feature.clip or (-math.inf, math.inf) for feature in features.values()]
        self._low = [low for low, _ in clips]
        self._high = [high for _, high in clips]
        self._log = [feature.log for feature in features.values()]
        self._prepared = self._prepare(rows)

    def outputs(self, results: Mapping[str, Analyzed]) -> dict[str, Column | Pair]:
        """Returns each feature's floats, given the statistics of those that need any: [rows], or [rows, 2]."""
        return self._of(self._prepared, results)

    def of_values(self, values: Mapping[str, float], results: Mapping[str, Analyzed]) -> dict[str, tf.Tensor]:
        """Returns the features' outputs for these values of the logs, one for every feature: scalars, or [2]."""
        one_each = self._prepare(one_row([values[name] for name in self._features]))
        return {name: made.tensor()[0] for name, made in self._of(one_each, results).items()}

    def prepared(self) -> dict[str, tf.Tensor]:
        """Returns each feature's numbers before they are scaled or binned: [rows]."""
        return dict(zip(self._features, self._prepared.parts(), strict=True))

    def _prepare(self, rows: Rows) -> Rows:
        x_R = rows.values_R
        if any(feature.clip for feature in self._features.values()):
            x_R = tf.maximum(x_R, rows.each(self._low))
            x_R = tf.minimum(x_R, rows.each(self._high))
        if any(self._log):
            x_R = tf.where(rows.each(self._log), _log1p(x_R), x_R)
        return rows.with_values(x_R)

    def _of(self, rows: Rows, results: Mapping[str, Analyzed]) -> dict[str, Column | Pair]:
        placed_R = self._place(self._features, rows, results)
        found = dict(zip(self._features, rows.with_values(placed_R).columns(), strict=True))
        if not any(map(learns_missing, self._features.values())):
            return dict(found)
        missing_R = tf.cast(tf.math.is_nan(rows.values_R), tf.float32)
        missing = dict(zip(self._features, rows.with_values(missing_R).columns(), strict=True))
        return {
            name: Pair((found[name], missing[name])) if learns_missing(feature) else found[name]
            for name, feature in self._features.items()
        }


def scaled(features: Features, rows: Rows, results: Mapping[str, Analyzed]) -> tf.Tensor:
    """Returns numbers as their features normalize them: [R].

    A number that is constant in training becomes 0 in every request, as nothing was learned about other values. A
    required number that a request lacks becomes 0 too, the mean after z-scoring; training rows always have it.
    """
    own = [results[name] if feature.is_scaled else Scale(offset=0.0, width=1.0) for name, feature in features.items()]
    scales = [scale for scale in own if isinstance(scale, Scale)]
    offset_F = tf.constant([scale.offset for scale in scales], tf.float32)
    width_F = tf.constant([scale.width for scale in scales], tf.float32)
    factor_F = tf.math.divide_no_nan(tf.ones_like(width_F), width_F)
    x_R = (rows.values_R - rows.in_rows(offset_F)) * rows.in_rows(factor_F)
    return tf.where(tf.math.is_nan(x_R), tf.zeros_like(x_R), x_R)


def binned(features: Features, rows: Rows, results: Mapping[str, Analyzed]) -> tf.Tensor:
    """Returns numbers in coordinates of bins: 2.5 is the middle of the third: [R].

    A feature without bins is 0 everywhere. A required number that a request lacks is in the middle of all bins.
    """
    ends_of = [found.ends for name in features if isinstance(found := results[name], Bins)]
    feature_R, is_missing_R = rows.feature_R(), tf.math.is_nan(rows.values_R)
    x_R = tf.where(is_missing_R, 0.0, rows.values_R)
    bin_R = num_at_most(rows.with_values(x_R), padded([[*each[1:-1], math.inf] for each in ends_of]))
    # Without bins everything is at the start of one without end.
    ends_FE = padded([each if len(each) > 1 else (0.0, math.inf) for each in ends_of])
    low_at_R, ends = feature_R * ends_FE.shape[1] + bin_R, tf.reshape(ends_FE, [-1])
    low_R, high_R = tf.gather(ends, low_at_R), tf.gather(ends, low_at_R + 1)
    # Halved, so that no difference of two numbers overflows.
    x_R, low_R, high_R = x_R / 2, low_R / 2, high_R / 2
    within_R = tf.math.divide_no_nan(x_R - low_R, high_R - low_R)
    placed_R = tf.cast(bin_R, tf.float32) + within_R
    num_F = [max(len(each) - 1, 0) for each in ends_of]
    open_F = [_has_open_ends(feature, num) for feature, num in zip(features.values(), num_F, strict=True)]
    low_R = rows.each([-_HIGHEST if is_open else 0.0 for is_open in open_F])
    high_R = rows.each([_HIGHEST if is_open else float(num) for is_open, num in zip(open_F, num_F, strict=True)])
    without_F = [0.0 if learns_missing(each) else num / 2 for each, num in zip(features.values(), num_F, strict=True)]
    return tf.where(is_missing_R, rows.each(without_F), tf.minimum(tf.maximum(placed_R, low_R), high_R))


def _has_open_ends(feature: OneNumber, num_bins: int) -> bool:
    """Says whether lines continue beyond the bins; with all bins, the trainer's last line is the last bin's."""
    encoding = feature.encoding
    return isinstance(encoding, PiecewiseLinearEncoding) and encoding.tail == "linear" and num_bins == encoding.bins
