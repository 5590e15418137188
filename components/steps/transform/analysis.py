"""Computes statistics of features over the training split: once for each day, merged in the order of the days."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf

from sangam.components.examples.reading import large_batches
from sangam.components.examples.summaries import Moments, Points, Quantiles, boundaries, ends_of_bins, with_last_divided
from sangam.components.steps.transform.tensors import tensors_of
from sangam.schemas.contracts.statistics import Analyzed, Bins, Boundaries, Scale
from sangam.schemas.derived.columns import graph_columns
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.encodings import PiecewiseLinearEncoding
from sangam.schemas.spec.features import BucketsFeature, Feature, OneNumber

NumbersFn = Callable[[dict[str, Any], dict[str, Any]], Mapping[str, tf.Tensor]]
"""`sangam.trainer_module.transforms.preprocessing.numbers_fn`, imported by its dotted path."""
_LARGEST_RANK_ERROR = 0.01
"""Maximum rank error of quantiles, as a share of the rows; at most a tenth of a bucket."""
_ROWS = pa.schema(
    [("moments", pa.list_(pa.float64())), ("points", pa.list_(pa.float32())), ("weights", pa.list_(pa.float64()))]
)
"""Schema of stored summaries, one feature in each row."""


@dataclass
class Summary:
    """A summary of a feature's numbers.

    Attributes:
        moments: moments of its finite numbers.
        quantiles: quantiles of the finite numbers, for buckets and bins.
    """

    moments: Moments = field(default_factory=Moments)
    quantiles: Quantiles | None = None

    def add(self, numbers_B: Any) -> None:
        """Adds a batch of numbers, without missing and non-finite ones."""
        finite_N = numbers_B[np.isfinite(numbers_B)]
        self.moments.add(finite_N)
        if self.quantiles is not None:
            self.quantiles.add(finite_N)


@dataclass(frozen=True)
class Analyze:
    """Computes summaries of features from files of raw examples, as an Arrow file.

    Attributes:
        numbers_fn: converts columns to numbers.
        inputs: inputs of the spec.
        names: names of the features.
    """

    numbers_fn: NumbersFn
    inputs: Inputs
    names: tuple[str, ...]

    def __call__(self, files: Sequence[str]) -> bytes:
        """Reads the files."""
        return _written(self.summaries_of(large_batches(files)))

    def summaries_of(self, batches: Iterable[pa.RecordBatch]) -> dict[str, Summary]:
        """Returns the summaries of these rows."""
        return self.summaries_of_parts((batch, [batch.num_rows]) for batch in batches)

    def summaries_of_parts(self, batches: Iterable[tuple[pa.RecordBatch, Sequence[int]]]) -> dict[str, Summary]:
        """Returns the summaries of batches of several parts, each added alone.

        Args:
            batches: rows, and the number of rows of each part.
        """
        config = {"inputs": self.inputs.model_dump_json(), "features": list(self.names)}
        read = sorted({column for name in self.names for column in graph_columns(self.inputs, name)})
        summaries = self.empty()
        for batch, sizes in batches:
            numbers = self.numbers_fn(tensors_of(batch, read), config)
            for name, summary in summaries.items():
                for part in np.split(numbers[name].numpy(), np.cumsum(sizes)[:-1]):
                    summary.add(part)
        return summaries

    def merged(self, kept: Iterable[pa.Table]) -> dict[str, Summary]:
        """Returns the summaries of all parts, merged in their order."""
        summaries = self.empty()
        for table in kept:
            moments, points, weights = table.columns
            for number, summary in enumerate(summaries.values()):
                count, *others = moments[number].as_py()
                summary.moments.merge(Moments(int(count), *others))
                if summary.quantiles is not None:
                    of_feature = Points(points[number].values.to_numpy(), weights[number].values.to_numpy())
                    summary.quantiles.merge(of_feature)
        return summaries

    def empty(self) -> dict[str, Summary]:
        """Returns a summary without numbers for each feature."""
        parts = {name: _num_parts(self.inputs.features[name]) for name in self.names}
        return {
            name: Summary(quantiles=Quantiles(min(_LARGEST_RANK_ERROR, 0.1 / num)) if num else None)
            for name, num in parts.items()
        }

    def found(self, summaries: Mapping[str, Summary]) -> dict[str, Analyzed]:
        """Returns the statistics of each feature."""
        return {name: _found(self.inputs.features[name], summary) for name, summary in summaries.items()}


def _num_parts(feature: Feature) -> int:
    """Returns the number of a feature's buckets or bins of equally many numbers; 0 without them."""
    if isinstance(feature, BucketsFeature):
        return feature.num_buckets
    encoding = feature.encoding if isinstance(feature, OneNumber) else None
    return encoding.bins if isinstance(encoding, PiecewiseLinearEncoding) else 0


def _found(feature: Feature, summary: Summary) -> Analyzed:
    """Returns the statistics of one feature, rounded to float32 as in the graph.

    For a feature without numbers, the boundaries are the largest number, the scale is that of a constant, and there are
    no bins.
    """
    moments = summary.moments
    if isinstance(feature, BucketsFeature):
        assert summary.quantiles is not None
        points = summary.quantiles.points()
        if not moments.count:
            return Boundaries(lowest=(float(np.finfo(np.float32).max),) * (feature.num_buckets - 1))
        return Boundaries(lowest=tuple(map(float, boundaries(points, feature.num_buckets))))
    assert isinstance(feature, OneNumber)
    if isinstance(feature.encoding, PiecewiseLinearEncoding):
        return Bins(ends=_ends(feature.encoding, summary))
    if not moments.count:
        return Scale(offset=0.0, width=0.0)
    if feature.normalize == "zscore":
        return Scale(offset=float(np.float32(moments.mean)), width=float(np.float32(moments.deviation)))
    return Scale(offset=moments.low, width=float(np.float32(moments.high) - np.float32(moments.low)))


def _ends(encoding: PiecewiseLinearEncoding, summary: Summary) -> tuple[float, ...]:
    moments, quantiles = summary.moments, summary.quantiles
    assert quantiles is not None
    if not moments.count:
        return ()
    ends = ends_of_bins(quantiles.points(), moments.low, moments.high, encoding.bins)
    if encoding.tail == "linear":
        ends = with_last_divided(ends, encoding.bins)
    return tuple(map(float, ends))


def _written(summaries: Mapping[str, Summary]) -> bytes:
    rows = []
    for summary in summaries.values():
        moments = summary.moments
        row: dict[str, Any] = {"moments": [moments.count, moments.mean, moments.squares, moments.low, moments.high]}
        if summary.quantiles is not None:
            points = summary.quantiles.points()
            row |= {"points": points.values_N.astype(np.float32), "weights": points.weights_N}
        rows.append(row)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, _ROWS, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(pa.Table.from_pylist(rows, _ROWS))
    return bytes(sink.getvalue())
