"""The statistics of one column, collected batch by batch and merged part by part."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tfx_bsl.arrow.array_util import CountInvalidUTF8
from tfx_bsl.sketches import KmvSketch, MisraGriesSketch

from sangam.components.examples.summaries import Moments, Points, Quantiles

_COUNTED_VALUES, _DISTINCT_VALUES = 4096, 16_384
"""Ids whose frequencies, and whose distinct number, are exact; beyond, counts are too low by at most 1/4096 of all."""
_NO_TEXT = "__BYTES_VALUE__"
"""TFDV's label for values that are not text."""

SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("type", pa.string()),
        ("lengths", pa.map_(pa.int64(), pa.int64())),
        ("moments", pa.list_(pa.float64())),
        ("zeros", pa.int64()),
        ("nan", pa.int64()),
        ("negative_infinite", pa.int64()),
        ("positive_infinite", pa.int64()),
        ("points", pa.list_(pa.float64())),
        ("weights", pa.list_(pa.float64())),
        ("bytes", pa.int64()),
        ("not_utf8", pa.int64()),
        ("counted", pa.binary()),
        ("distinct", pa.binary()),
    ]
)
"""Schema of stored columns, one in each row."""


@dataclass
class Numbers:
    """Statistics of numbers: moments of the finite ones, quantiles of all but NaN."""

    error: float
    moments: Moments = field(default_factory=Moments)
    zeros: int = 0
    nan: int = 0
    negative_infinite: int = 0
    positive_infinite: int = 0

    def __post_init__(self) -> None:
        """Starts the quantiles."""
        self.quantiles = Quantiles(self.error)

    def add(self, values: pa.Array) -> None:
        """Adds a batch."""
        numbers_N = values.to_numpy(zero_copy_only=False)
        if numbers_N.dtype.kind == "f":
            is_nan_N = np.isnan(numbers_N)
            self.nan += int(is_nan_N.sum())
            numbers_N = numbers_N[~is_nan_N]
            self.negative_infinite += int(np.isneginf(numbers_N).sum())
            self.positive_infinite += int(np.isposinf(numbers_N).sum())
        self.zeros += numbers_N.size - int(np.count_nonzero(numbers_N))
        self.moments.add(numbers_N[np.isfinite(numbers_N)])
        self.quantiles.add(numbers_N)

    def row(self) -> dict[str, Any]:
        """Returns the values to keep."""
        points = self.quantiles.points()
        moments = self.moments
        return {
            "moments": [moments.count, moments.mean, moments.squares, moments.low, moments.high],
            "zeros": self.zeros,
            "nan": self.nan,
            "negative_infinite": self.negative_infinite,
            "positive_infinite": self.positive_infinite,
            "points": points.values_N.astype(np.float64),
            "weights": points.weights_N,
        }

    def merge(self, row: dict[str, Any]) -> None:
        """Adds kept values."""
        count, *others = row["moments"]
        self.moments.merge(Moments(int(count), *others))
        self.zeros += row["zeros"]
        self.nan += row["nan"]
        self.negative_infinite += row["negative_infinite"]
        self.positive_infinite += row["positive_infinite"]
        self.quantiles.merge(Points(np.asarray(row["points"]), np.asarray(row["weights"])))


class Texts:
    """Statistics of strings and of integer ids, which count as their decimal texts."""

    def __init__(self) -> None:
        """Starts without values."""
        self.bytes = self.not_utf8 = 0
        self.counted = MisraGriesSketch(num_buckets=_COUNTED_VALUES, invalid_utf8_placeholder=_NO_TEXT)
        self.distinct = KmvSketch(_DISTINCT_VALUES)

    def add(self, values: pa.Array) -> None:
        """Adds a batch."""
        if not len(values):
            return
        counts = values.value_counts()
        different, of_each = counts.field(0), counts.field(1)
        if pa.types.is_integer(different.type):
            different = different.cast(pa.string()).cast(pa.binary())
        self.bytes += pc.sum(pc.multiply(pc.binary_length(different).cast(pa.int64()), of_each)).as_py()
        if CountInvalidUTF8(different):
            self.not_utf8 += CountInvalidUTF8(values)
            self.counted.AddValues(values)  # With weights the sketch does not replace values that are not text.
        else:
            self.counted.AddValues(different, of_each.cast(pa.float32()))
        self.distinct.AddValues(different)

    def row(self) -> dict[str, Any]:
        """Returns the values to keep."""
        return {
            "bytes": self.bytes,
            "not_utf8": self.not_utf8,
            "counted": self.counted.Serialize(),
            "distinct": self.distinct.Serialize(),
        }

    def merge(self, row: dict[str, Any]) -> None:
        """Adds kept values."""
        self.bytes += row["bytes"]
        self.not_utf8 += row["not_utf8"]
        self.counted.Merge(MisraGriesSketch.Deserialize(row["counted"]))
        self.distinct.Merge(KmvSketch.Deserialize(row["distinct"]))


class Column:
    """Statistics of a column.

    Attributes:
        name: name of the column.
        type: int, float or string, of the values.
        lengths: number of rows by their number of values; rows without values are not counted.
        numbers: moments and quantiles of a number that is not an id.
        texts: frequencies of a string or an id.
    """

    def __init__(self, name: str, type_name: str, *, is_id: bool, error: float):
        """Starts without rows."""
        self.name, self.type = name, type_name
        self.lengths: Counter[int] = Counter()
        is_text = is_id or type_name == "string"
        self.texts = Texts() if is_text else None
        self.numbers = None if is_text else Numbers(error)

    def add(self, rows: pa.Array) -> None:
        """Adds a batch: a list of values for each row, null where there is none."""
        lengths = rows.value_lengths().drop_null().value_counts()
        self.lengths.update(dict(zip(lengths.field(0).to_pylist(), lengths.field(1).to_pylist(), strict=True)))
        for kind in (self.numbers, self.texts):
            if kind is not None:
                kind.add(rows.flatten())

    def row(self) -> dict[str, Any]:
        """Returns the values to keep, a row of `SCHEMA`."""
        found: dict[str, Any] = {"name": self.name, "type": self.type, "lengths": sorted(self.lengths.items())}
        for kind in (self.numbers, self.texts):
            found |= kind.row() if kind is not None else {}
        return found

    def merge(self, row: dict[str, Any]) -> None:
        """Adds kept values."""
        self.lengths.update(dict(row["lengths"]))
        for kind in (self.numbers, self.texts):
            if kind is not None:
                kind.merge(row)
