"""Progressive validation: predictions of examples before they are trained on, over the last minutes.

Reference: Blum, Kalai, Langford: Beating the hold-out: bounds for k-fold and progressive cross-validation, COLT 1999.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.spec import RankerSpec
from sangam.schemas.spec.online import Guard
from sangam.schemas.spec.tasks import BinaryTask
from sangam.trainer_module import collectives
from sangam.trainer_module.input.batch import Batch
from sangam.trainer_module.loop.trainer import Trainer
from sangam.trainer_module.loop.validation import Auc
from sangam.trainer_module.snapshot import Arrays

_BINS = 2000
"""Number of histogram bins for logits from -16 to 16: 32 KB for each task and minute."""
_SHORTEST_MINUTES = 60
_SUMS = ("examples", "weight", "label", "prediction")
_MINUTES, _PAIRS, _OTHERS = "minutes", "pairs", "sums"
"""Names of the arrays of a judge's state."""

Values = Mapping[str, Mapping[str, float]]
"""{task: {"auc", "calibration", "prediction_mean", "label_mean", "examples": number}}; NaN where undefined."""


@dataclass
class _Minute:
    """Sums over the examples of the segments with their newest event in one minute.

    Attributes:
        pairs: histograms of negatives and positives by task: [2, bins].
        sums: [tasks, 4], in the order of `_SUMS`.
    """

    pairs: NDArray[np.float64]
    sums: NDArray[np.float64]


class Judge:
    """Evaluates segments before they are trained on. Sampled negatives are weighted by the rows that they represent."""

    def __init__(self, spec: RankerSpec, guards: Sequence[Guard]):
        """Takes the spec, and the guards, which set how many minutes are kept."""
        self._tasks = [name for name, task in spec.tasks.items() if isinstance(task, BinaryTask)]
        self._columns = [list(spec.tasks).index(name) for name in self._tasks]
        kept = {name: task.keep_negatives for name, task in spec.tasks.items() if isinstance(task, BinaryTask)}
        self._kept = [(list(spec.tasks).index(name), share) for name, share in kept.items() if share is not None]
        self._guards = [guard for guard in guards if guard.task in self._tasks]
        self._longest = max([_SHORTEST_MINUTES, *(guard.minutes for guard in self._guards)])
        self._seen: dict[int, _Minute] = {}
        self._crossed: str | None = None

    def judge(self, trainer: Trainer, batches: Iterable[Batch], minute: int) -> None:
        """Scores the batches of a segment. All ranks together, with equally many batches.

        Args:
            trainer: read only.
            batches: this rank's batches.
            minute: minute of the segment's newest event, since 1970.
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
                curves[place].add(labels_B, np.nan_to_num(logits_BT[:, column].numpy()))
                has = ~np.isnan(labels_B)
                weights = weights_B[has]
                sums[place] += (has.sum(), weights.sum(), weights @ labels_B[has], weights @ scores_B[has])
        pairs = np.zeros([len(self._tasks), 2, _BINS])
        for place, curve in enumerate(curves):
            pairs[place] = curve.totals
        flat = np.concatenate([pairs.ravel(), sums.ravel()])
        total = collectives.allreduce_sum(tf.constant(flat), name="judged").numpy()
        seen = self._seen.setdefault(minute, _Minute(np.zeros_like(pairs), np.zeros_like(sums)))
        seen.pairs += total[: pairs.size].reshape(pairs.shape)
        seen.sums += total[pairs.size :].reshape(sums.shape)
        newest, self._crossed = max(self._seen), None
        for old in [each for each in self._seen if each <= newest - self._longest]:
            del self._seen[old]

    def _weights(self, labels_BT: NDArray[np.float32]) -> NDArray[np.float64]:
        """Returns the number of log rows that each example represents: [B]."""
        weights_B = np.ones(len(labels_BT))
        for column, share in self._kept:
            weights_B[labels_BT[:, column] == 0.0] /= share
        return weights_B

    def values(self, minutes: int = _SHORTEST_MINUTES) -> Values:
        """Returns the metrics of the segments of the last minutes."""
        if not self._seen:
            return {}
        newest = max(self._seen)
        recent = [seen for minute, seen in self._seen.items() if minute > newest - minutes]
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
        """Returns the first guard that is violated, with its value; empty if none is."""
        if self._crossed is None:
            self._crossed = next(filter(None, map(self._crossed_by, self._guards)), "")
        return self._crossed

    def _crossed_by(self, guard: Guard) -> str:
        values = self.values(guard.minutes).get(guard.task)
        if values is None or values["examples"] < guard.least_examples:
            return ""
        bound = _bound_crossed(guard, values)
        return bound and f"{guard.task}: {guard.metric} of the last {guard.minutes} minutes is {bound}"

    def state(self) -> Arrays:
        """Returns the judge's state, so that a guard that holds deltas still does after a restart."""
        minutes = sorted(self._seen)
        if not minutes:
            return {}
        return {
            _MINUTES: np.array(minutes, np.int64),
            _PAIRS: np.stack([self._seen[minute].pairs for minute in minutes]),
            _OTHERS: np.stack([self._seen[minute].sums for minute in minutes]),
        }

    def restore(self, state: Arrays) -> None:
        """Restores the result of `state`; ignores the state of other tasks."""
        self._seen, self._crossed = {}, None
        if not state or state[_PAIRS].shape[1:] != (len(self._tasks), 2, _BINS):
            return
        for minute, pairs, sums in zip(state[_MINUTES].tolist(), state[_PAIRS], state[_OTHERS], strict=True):
            self._seen[minute] = _Minute(pairs.copy(), sums.copy())


def _bound_crossed(guard: Guard, values: Mapping[str, float]) -> str:
    """Returns the violated bound.

    An undefined value violates it: all examples have the same label, as when the actions are lost, or predictions are
    NaN.
    """
    value = values[guard.metric]
    if np.isnan(values["prediction_mean"]):
        return f"undefined (got predictions that are not numbers, of {values['examples']:.0f} examples)"
    if np.isnan(value):
        label = "0" if values["label_mean"] == 0.0 else "1"
        return f"undefined (got {values['examples']:.0f} examples, all with label {label})"
    if guard.at_least is not None and value < guard.at_least:
        return f"less than {guard.at_least} (got {value:.4f})"
    if guard.at_most is not None and value > guard.at_most:
        return f"more than {guard.at_most} (got {value:.4f})"
    return ""
