"""Servers of one version that get its deltas at different intervals of event time, and their predictions."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.components.server.deltas import Deltas
from sangam.components.server.model import LoadedModel
from sangam.schemas.contracts.export import SERVE

_ROWS_AT_ONCE = 4096
Scores = Mapping[str, NDArray[np.float32]]
"""Scores [rows] by task."""


class Server:
    """A loaded version that applies deltas as `sangam serve` does, but only when an interval of event time begins.

    What arrives within an interval is scored at its end: nothing has changed since it arrived.

    Attributes:
        applied: deltas so far.
    """

    def __init__(self, version: Path, every_s: int | None):
        """Takes the folder of a pushed version, and the interval; None: it never applies any."""
        self._model = LoadedModel(version, int(version.name))
        self._deltas = Deltas(self._model, version)
        self._every_s = every_s
        self._interval = 0
        self._waiting: list[bytes] = []
        self._scores: list[Scores] = []
        self.applied = 0

    def arrive(self, second: int, examples: Sequence[bytes]) -> None:
        """Takes examples that arrive from a second on, in the order of time; none of them was trained on before.

        Args:
            second: time of the earliest example, seconds since 1970.
            examples: serialized, of the logs.
        """
        interval = 0 if self._every_s is None else second // self._every_s
        if interval != self._interval:
            self._score()
            if self._every_s is not None:
                self.applied += self._deltas.apply_new()
                assert not self._deltas.state.problem, self._deltas.state.problem
            self._interval = interval
        self._waiting += examples

    def scores(self) -> Scores:
        """Returns the scores of all that has arrived."""
        self._score()
        return {task: np.concatenate([each[task] for each in self._scores]) for task in self._scores[0]}

    def _score(self) -> None:
        for start in range(0, len(self._waiting), _ROWS_AT_ONCE):
            examples = tf.constant(self._waiting[start : start + _ROWS_AT_ONCE])
            found = self._model.run(self._model.signature(SERVE), {"examples": examples})
            self._scores.append({task: values[:, 0] for task, values in found.items()})
        self._waiting = []
