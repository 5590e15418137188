"""Parts with a mistake each, by the key `way`."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from sangam.parts import AlertTarget, Array, Column, Direction, Metric, NegativeSampler, Slice, TaskKind


class WrongMetric(Metric):
    """A mean of predictions, with a mistake."""

    kind: Literal["wrong"]
    direction: ClassVar[Direction] = "lower"
    task_kinds: ClassVar[Sequence[TaskKind]] = ("binary",)
    way: str

    def sums(self, labels_B: Array, predictions_B: Array) -> Array:
        match self.way:
            case "raise":
                return labels_B["like"]
            case "flat":
                return predictions_B
            case "infinite":
                return np.log(predictions_B)[:, None]
            case "texts":
                return predictions_B.astype(str)[:, None]
            case "ranks":
                return np.stack([np.argsort(np.argsort(predictions_B)), np.ones_like(labels_B)], axis=1)
        return np.stack([predictions_B, np.ones_like(labels_B)], axis=1)

    def value(self, sums: Array) -> Array:
        return sums.sum() if self.way == "one value" else sums[..., 0] / sums[..., 1]


class Aimless(Metric):
    """A metric that does not say which values are better."""

    kind: Literal["aimless"]
    task_kinds: ClassVar[Sequence[TaskKind]] = ("binary",)

    def sums(self, labels_B: Array, predictions_B: Array) -> Array:
        return np.stack([labels_B, predictions_B], axis=1)


class ForRanks(Aimless):
    """A metric of tasks that nobody has."""

    kind: Literal["for_ranks"]
    direction: ClassVar[Direction] = "lower"
    task_kinds: ClassVar[Sequence[TaskKind]] = ("ranks",)  # type: ignore[assignment]


class WrongSlice(Slice):
    """No texts."""

    kind: Literal["wrong"]
    way: str

    def reads(self) -> Sequence[Column]:
        return [Column("user_id", "string")]

    def texts(self, columns: Sequence[Array]) -> Array:
        match self.way:
            case "short":
                return columns[0][:1]
            case "rows":
                return np.arange(len(columns[0])).astype(str)
        return np.arange(len(columns[0]))


class WrongSampler(NegativeSampler):
    """No weights, or others each time."""

    kind: Literal["wrong"]
    way: str

    def weights(self, items_I: Array, positives_I: Array) -> Array:
        match self.way:
            case "negative":
                return -positives_I
            case "random":
                return np.random.default_rng().random(len(items_I))
        return positives_I[1:]


class WrongTarget(AlertTarget):
    """What cannot be sent."""

    kind: Literal["wrong"]
    reads_key: ClassVar[bool] = True
    way: str

    def payload(self, event: Mapping[str, Any], key: str) -> Any:
        if self.way == "raise":
            raise KeyError(f"no {key}")
        return {"value": float("nan") if self.way == "body" else event["kind"]}

    def headers(self, key: str) -> Mapping[str, str]:
        del key
        return {"X": "1\r\nY: 2"} if self.way == "header" else {}
