"""The states of versions, and why some are refused, for clients, metrics and the log."""

import logging
from dataclasses import dataclass

from prometheus_client import Gauge

from sangam.components.server.loading import CHANGED, WITHDRAWN, Fingerprint
from sangam.components.server.model import NotServable

_LOG = logging.getLogger("sangam.components.server")
START, LOADING, AVAILABLE, END = "START", "LOADING", "AVAILABLE", "END"
"""States of a version, by the names of tensorflow.serving.ModelVersionStatus.State; START: loaded, and not served."""
_EXPECTED_REASONS = (WITHDRAWN, CHANGED)


@dataclass(frozen=True)
class State:
    """The state of a version.

    Attributes:
        state: START, LOADING, AVAILABLE or END.
        problem: why it cannot be used; empty if it can.
        reason: the problem in one word.
    """

    state: str
    problem: str = ""
    reason: str = ""


class States:
    """The states of versions by number; one thread changes them."""

    def __init__(self, name: str, refused: Gauge):
        """Takes the name of the model, and the metric that is 1 for each refused version."""
        self._name, self._metric = name, refused
        self._states: dict[int, State] = {}
        self._refused: dict[int, Fingerprint] = {}

    def all(self) -> dict[int, State]:
        """Returns all states."""
        return self._states.copy()

    def set(self, number: int, state: str) -> None:
        """Sets the state of a version that can be used."""
        self.forget(number)
        self._states[number] = State(state)

    def refuse(self, number: int, fingerprint: Fingerprint, error: NotServable, kept: int | None) -> None:
        """Notes and logs that a version with these files cannot be used.

        Args:
            number: version.
            fingerprint: of its files.
            error: why.
            kept: version that is used instead.
        """
        self.forget(number)
        self._refused[number] = fingerprint
        self._states[number] = State(END, str(error), error.reason)
        self._metric.labels(self._name, str(number), error.reason).set(1)
        level = logging.WARNING if error.reason in _EXPECTED_REASONS else logging.ERROR
        told = (self._name, number, error.reason, "none" if kept is None else kept, error)
        _LOG.log(level, "model=%s version=%d refused=%s served=%s: %s", *told)

    def is_refused(self, number: int, fingerprint: Fingerprint) -> bool:
        """Returns whether a version was refused with these files: it is tried again once they change."""
        return self._refused.get(number) == fingerprint

    def forget(self, number: int) -> None:
        """Forgets a version."""
        state = self._states.pop(number, None)
        self._refused.pop(number, None)
        if state and state.reason:
            self._metric.remove(self._name, str(number), state.reason)
