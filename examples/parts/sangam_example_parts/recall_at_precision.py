"""Recall at a precision, for gates."""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from sangam.parts import Array, Direction, Metric, TaskKind

_LARGEST_LOGIT = 10.0


class RecallAtPrecision(Metric):
    """max over thresholds t of TP(t) / P, subject to TP(t) / (TP(t) + FP(t)) >= `precision`.

    Eban et al.: Scalable learning of non-decomposable objectives, AISTATS 2017. The thresholds are the lower
    edges of `bins` equal bins of the logit, so the value is at most that of all thresholds. 0 if none has the
    precision, undefined without positives.
    """

    kind: Literal["recall_at_precision"]
    direction: ClassVar[Direction] = "higher"
    task_kinds: ClassVar[Sequence[TaskKind]] = ("binary",)
    largest: ClassVar[float] = 1.0
    precision: Annotated[float, Field(gt=0, lt=1)]
    """Least share of positives among the examples above the threshold."""
    bins: Annotated[int, Field(ge=10, le=1000)] = 100
    """Number of thresholds, from logit -10 to 10. An example costs twice as many sums."""

    def sums(self, labels_B: Array, predictions_B: Array) -> Array:
        """Returns the histograms of positives and of all: [B, 2 * bins]."""
        chances_B = np.clip(predictions_B, 1e-9, 1 - 1e-9)
        place_B = (np.log(chances_B / (1 - chances_B)) / _LARGEST_LOGIT + 1) / 2 * self.bins
        bin_B = np.clip(place_B.astype(np.int64), 0, self.bins - 1)
        counts_BS = np.zeros((len(labels_B), 2 * self.bins))
        rows_B = np.arange(len(labels_B))
        counts_BS[rows_B, bin_B] = labels_B
        counts_BS[rows_B, self.bins + bin_B] = 1.0
        return counts_BS

    def value(self, sums: Array) -> Array:
        right, told = (np.cumsum(half[..., ::-1], axis=-1) for half in np.split(sums, 2, axis=-1))
        recalls = right / right[..., -1:]
        return np.where(right >= self.precision * np.maximum(told, 1e-9), recalls, 0.0 * recalls).max(axis=-1)
