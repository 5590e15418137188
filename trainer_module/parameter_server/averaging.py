"""A rank's side of averaging dense weights with other ranks during training; see `center` for the arithmetic.

The thread only waits for servers: between two steps, the training thread copies the weights for it and adds the
result. So no update is lost, and no step waits for the network.
"""

import threading
import time
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from sangam.schemas.spec.sync import Shadow
from sangam.trainer_module.parameter_server.client import Servers
from sangam.trainer_module.parameter_server.dense_part import part_of


class Averaging:
    """The exchanges of one rank.

    Attributes:
        gaps: number of steps between successive exchanges that changed the weights.
    """

    def __init__(self, servers: Servers, sync: Shadow, flat: tf.Variable):
        """Starts the exchanges, in the background unless `every_steps` is set.

        Args:
            servers: the servers that hold the center.
            sync: algorithm and interval.
            flat: the rank's dense weights.
        """
        self._servers, self._sync, self._flat = servers, sync, flat
        self.gaps: list[int] = []
        self._steps = 0
        self._changed = threading.Condition()
        self._copy: NDArray[Any] | None = None
        self._moved: NDArray[Any] | None = None
        self._wants_copy = self._is_settling = self._is_closed = False
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        if sync.every_steps is None:
            self._thread = threading.Thread(target=self._run, name="averaging", daemon=True)
            self._thread.start()

    def after_step(self) -> None:
        """Adds the result of an exchange, and copies the weights for the next; called after every step.

        Raises:
            The error that ended the thread.
        """
        self._steps += 1
        if self._sync.every_steps is not None:
            if self._steps >= self._sync.every_steps:
                self._add(self._exchange(self._flat.numpy()))
            return
        with self._changed:
            if self._error is not None:
                raise self._error
            if self._moved is not None:
                moved, self._moved = self._moved, None
                self._add(moved)
            if self._wants_copy:
                self._wants_copy, self._copy = False, self._flat.numpy().copy()
                self._changed.notify_all()

    def settle(self) -> None:
        """Waits for the exchange under way, and makes one more, so that the center has this rank's last steps."""
        if self._thread is not None:
            with self._changed:
                self._is_settling = True
                self._changed.notify_all()
                while not self._wants_copy and self._moved is None and self._error is None:
                    self._changed.wait()
                self._is_settling = False
                if self._error is not None:
                    raise self._error
                if self._moved is not None:
                    moved, self._moved = self._moved, None
                    self._add(moved)
        self._add(self._exchange(self._flat.numpy()))

    def average(self) -> NDArray[Any]:
        """Returns the model of all ranks: [size]."""
        return np.concatenate([arrays[0] for _, arrays in self._servers.ask("dense", {})])

    def close(self) -> None:
        """Ends the thread after the exchange under way."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _add(self, moved: NDArray[Any]) -> None:
        self._flat.assign_add(moved)
        if self._steps:
            self.gaps.append(self._steps)
        self._steps = 0

    def _exchange(self, weights: NDArray[Any]) -> NDArray[Any]:
        servers = self._servers
        slices = [part_of(len(weights), server.number, len(servers)) for server in servers.all]
        begun = [server.begin("exchange", [weights[s]]) for server, s in zip(servers.all, slices, strict=True)]
        return np.concatenate([answer.result()[0] for answer in begun])

    def _run(self) -> None:
        try:
            while True:
                started = time.monotonic()
                with self._changed:
                    # One exchange at a time: the last result is added before the next copy.
                    while self._moved is not None and not self._is_closed:
                        self._changed.wait(0.05)
                    self._wants_copy = True
                    self._changed.notify_all()
                    while self._copy is None and not self._is_closed:
                        self._changed.wait()
                    if self._is_closed:
                        return
                    copy, self._copy = self._copy, None
                assert copy is not None
                moved = self._exchange(copy)
                with self._changed:
                    self._moved = moved
                    self._changed.notify_all()
                    left_s = self._sync.least_interval_s - (time.monotonic() - started)
                    if left_s > 0:
                        self._changed.wait_for(lambda: self._is_closed or self._is_settling, left_s)
        except BaseException as error:  # noqa: BLE001 - raised after the next step
            with self._changed:
                self._error = error
                self._changed.notify_all()
