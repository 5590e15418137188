"""The arrays that parts of others compute in NumPy, checked."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sangam.schemas.parts.calls import refused, told
from sangam.schemas.parts.judging import Metric, NegativeSampler, Slice
from sangam.schemas.parts.kinds import Part

Floats = NDArray[np.float64]


def metric_sums(metric: Metric, labels_B: Floats, predictions_B: Floats) -> Floats:
    """Returns the numbers of each example that a metric sums, [B, S].

    Raises:
        UserError: like all functions here, if the method raises anything, or its result is not what it says.
    """
    sums_BS = _array(metric, metric.sums, labels_B, predictions_B)
    if sums_BS.ndim != 2 or len(sums_BS) != len(labels_B) or not sums_BS.shape[1]:
        raise refused(metric, f"returned the shape {_shown(sums_BS)}", f"[{len(labels_B)}, S]: S numbers per example")
    return _finite(metric, sums_BS)


def metric_values(metric: Metric, sums: Floats) -> Floats:
    """Returns a metric of sums [..., S]: [...], NaN where it is undefined."""
    values = _array(metric, metric.value, sums)
    if values.shape != sums.shape[:-1]:
        what = f"of sums {_shown(sums)} has the shape {_shown(values)}"
        raise refused(metric, what, f"{_shown(sums[..., 0])}, by operations along the last axis", "value")
    floats = _floats(metric, values, "value")
    return np.where(np.isfinite(floats), floats, np.nan)


def slice_texts(part: Slice, columns: Sequence[Any], size: int) -> NDArray[np.object_]:
    """Returns the text of each example, "" where it has none."""
    texts = _array(part, part.texts, columns)
    if texts.shape != (size,):
        raise refused(part, f"returned the shape {_shown(texts)}", f"[{size}]: a text per example")
    if wrong := [each for each in texts.tolist() if not isinstance(each, str)]:
        raise refused(
            part, f"returned what is no text (got {wrong[0]!r})", "texts, such as of np.where and astype(str)"
        )
    return texts.astype(object)


def item_weights(sampler: NegativeSampler, items_I: NDArray[Any], positives_I: NDArray[np.int64]) -> Floats:
    """Returns the weight of each item."""
    arguments = (items_I, positives_I)
    weights_I = _array(sampler, sampler.weights, *arguments)
    if weights_I.shape != items_I.shape:
        raise refused(sampler, f"returned the shape {_shown(weights_I)}", f"{_shown(items_I)}: a weight per item")
    weights_I = _finite(sampler, weights_I)
    if (weights_I < 0).any():
        raise refused(sampler, f"returned a weight below 0 (got {weights_I.min():g})", "weights of at least 0")
    if not np.array_equal(weights_I, _array(sampler, sampler.weights, *arguments)):
        what = "returned other weights for the same items: the rows would depend on the worker"
        raise refused(sampler, what, "weights that follow from its arguments alone")
    return weights_I


def _array(part: Part, method: Any, *arguments: Any) -> NDArray[Any]:
    def computed() -> NDArray[Any]:
        # 0 / 0 is a usual way to say NaN.
        with np.errstate(all="ignore"):
            return np.asarray(method(*arguments))

    computed.__name__ = method.__name__
    made: NDArray[Any] = told(part, computed)
    return made


def _finite(part: Part, values: NDArray[Any]) -> Floats:
    floats = _floats(part, values, part.compute)
    if not np.isfinite(floats).all():
        wrong = floats[~np.isfinite(floats)][0]
        raise refused(part, f"returned a number that is not finite (got {wrong:g})", "finite numbers")
    return floats


def _floats(part: Part, values: NDArray[Any], method: str) -> Floats:
    if values.dtype.kind not in "biuf":
        raise refused(part, f"returned {values.dtype.name}", "float64", method)
    return values.astype(np.float64)


def _shown(values: NDArray[Any]) -> str:
    return f"[{', '.join(map(str, values.shape))}]"
