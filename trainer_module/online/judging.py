"""Progressive validation: predictions of examples that were not trained on yet, over the last minutes.

Reference: Blum, Kalai, Langford: Beating the hold-out: bounds for k-fold and progressive cross-validation, COLT 1999.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from schemas.spec import RankerSpec
from schemas.spec.online import Guard
from schemas.spec.tasks import BinaryTask
from trainer_module import collectives
from trainer_module.input.batch import Batch
from trainer_module.loop.trainer import Trainer
from trainer_module.loop.validation import Auc

_BINS = 2000
"""Of logits from -16 to 16, for each task and minute."""
_SHORTEST_MINUTES = 60
_SUMS = ("examples", "weight", "label", "prediction")

Values = Mapping[str, Mapping[str, float]]
"""{task: {"auc", "calibration", "prediction_mean", "label_mean", "examples": number}}; NaN where undefined."""


@dataclass(frozen=True)
class _Minute:
    """Sums over the examples of one segment.

    Attributes:
        minute: of its newest event, since 1970.
        pairs: by task, [2, bins], of negatives and positives.
        sums: [tasks, 4], in the order of `_SUMS`.
    """

    minute: int
    pairs: NDArray[np.float64]
    sums: NDArray[np.float64]


class Judge:
    """Judges segments before they are trained on. Rows of sampled negatives count as the rows that they stand for."""

    def __init__(self, spec: RankerSpec, guards: Sequence[Guard]):
        """Takes the spec, and the guards, which say for how many minutes to remember."""
        self._tasks = [name for name, task in spec.tasks.items() if isinstance(task, BinaryTask)]
        self._columns = [list(spec.tasks).index(name) for name in self._tasks]
        kept = {name: task.keep_negatives for name, task in spec.tasks.items() if isinstance(task, BinaryTask)}
        self._kept = [(list(spec.tasks).index(name), share) for name, share in kept.items() if share is not None]
        self._guards = [guard for guard in guards if guard.task in self._tasks]
        self._minutes = max([_SHORTEST_MINUTES, *(guard.minutes for guard in self._guards)])
        self._seen: deque[_Minute] = deque()

    def judge(self, trainer: Trainer, batches: Iterable[Batch], minute: int) -> None:
        """Scores the batches of a segment. All ranks together, with as many batches each.

        Args:
            trainer: not updated.
            batches: of this rank.
            minute: of the segment's newest event, since 1970.
        """
        curves = [Auc(_BINS) for _ in self._tasks]
        sums = np.zeros([len(self._tasks), len(_SUMS)])
        for batch in batches:
            logits_BT = trainer.logits(batch)
            predictions = trainer.ranker.predictions(logits_BT)
            labels_BT = trainer.ranker.labels(batch).numpy()
            weights_B = self._weights(labels_BT)
            for place, (task, column) in enumerate(zip(self._tasks, self._columns, strict=True)):
                labels_B, scores_B = labels_BT[:, column], predictions[task].numpy()[:, 0]
                curves[place].add(labels_B, logits_BT[:, column].numpy())
                has = ~np.isnan(labels_B)
                weights = weights_B[has]
                sums[place] += (has.sum(), weights.sum(), weights @ labels_B[has], weights @ scores_B[has])
        pairs = np.stack([curve.totals for curve in curves])
        flat = np.concatenate([pairs.ravel(), sums.ravel()])
        total = collectives.allreduce_sum(tf.constant(flat), name="judged").numpy()
        self._seen.append(
            _Minute(minute, total[: pairs.size].reshape(pairs.shape), total[pairs.size :].reshape(sums.shape))
        )
        newest = max(seen.minute for seen in self._seen)
        while self._seen[0].minute <= newest - self._minutes:
            self._seen.popleft()

    def _weights(self, labels_BT: NDArray[np.float32]) -> NDArray[np.float64]:
        """Returns how many rows of the logs each example stands for: [B]."""
        weights_B = np.ones(len(labels_BT))
        for column, share in self._kept:
            weights_B[labels_BT[:, column] == 0.0] /= share
        return weights_B

    def values(self, minutes: int = _SHORTEST_MINUTES) -> Values:
        """Returns what the segments of the last minutes gave."""
        if not self._seen:
            return {}
        newest = max(seen.minute for seen in self._seen)
        recent = [seen for seen in self._seen if seen.minute > newest - minutes]
        pairs = np.sum([seen.pairs for seen in recent], axis=0)
        sums = np.sum([seen.sums for seen in recent], axis=0)
        curve = Auc(_BINS)
        values = {}
        for place, task in enumerate(self._tasks):
            examples, weight, label, prediction = sums[place]
            values[task] = {
                "auc": curve.value(pairs[place]),
                "calibration": float(prediction / label) if label else float("nan"),
                "prediction_mean": float(prediction / weight) if weight else float("nan"),
                "label_mean": float(label / weight) if weight else float("nan"),
                "examples": float(examples),
            }
        return values

    def crossed(self) -> str:
        """Returns which guard's bound is crossed, and by what; empty if none is."""
        for guard in self._guards:
            values = self.values(guard.minutes).get(guard.task)
            if values is None or values["examples"] < guard.least_examples:
                continue
            value = values[guard.metric]
            bound = _bound_crossed(guard, value)
            if bound:
                return f"{guard.task}: {guard.metric} of the last {guard.minutes} minutes is {bound} (got {value:.4f})"
        return ""


def _bound_crossed(guard: Guard, value: float) -> str:
    if guard.at_least is not None and not value >= guard.at_least:
        return f"less than {guard.at_least}"
    if guard.at_most is not None and not value <= guard.at_most:
        return f"more than {guard.at_most}"
    return ""
