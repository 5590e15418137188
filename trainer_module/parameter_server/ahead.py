"""Pulls rows ahead of a rank's steps and pushes gradients behind them, at most a set number of batches apart."""

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sangam.trainer_module.parameter_server.lane import Arrays, Call
from sangam.trainer_module.parameter_server.shard import Outcome
from sangam.trainer_module.parameter_server.stream import PATIENCE_S


@dataclass(frozen=True)
class Pushed:
    """The servers' results of a push.

    Attributes:
        outcome: the worst `shard.Outcome` of all servers.
        staleness: the most updates that a server applied between reading a row and updating it.
        updates: number of updates, by all ranks, that the first server has applied in this attempt.
    """

    outcome: Outcome
    staleness: int
    updates: int


class Ahead:
    """The pulls and pushes of one rank, in batch order.

    A batch is pulled once the push of `staleness` + 1 batches before is applied: between reading and updating its rows,
    at most `staleness` other batches of the rank update them. A thread waits for the pushes and sends the pulls, so
    that neither waits for the dense part.
    """

    def __init__(
        self,
        staleness: int,
        *,
        pull: Callable[[int, Any], Sequence[Call]],
        finish: Callable[[Sequence[Call]], Pushed],
        while_waiting: Callable[[], None] = lambda: None,
        first: int = 0,
    ):
        """Starts the thread.

        Args:
            staleness: the bound, in batches.
            pull: sends the pulls of a batch: (number, request) -> one answer per server.
            finish: waits until a push is applied, given its answers.
            while_waiting: called every few seconds while a batch waits for the pushes of other ranks.
            first: number of the first batch.
        """
        self._staleness, self._pull, self._finish = staleness, pull, finish
        self._while_waiting = while_waiting
        self._changed = threading.Condition()
        self._requests: dict[int, Any] = {}
        self._pulls: dict[int, Sequence[Call]] = {}
        self._next_pull = self._done = first
        self._results: list[Pushed] = []
        self._error: BaseException | None = None
        self._pushes: queue.SimpleQueue[tuple[int, Sequence[Call]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="wire", daemon=True)
        self._thread.start()

    def offer(self, number: int, request: Any) -> None:
        """Queues a batch's keys for the pull, in batch order."""
        with self._changed:
            self._requests[number] = request
            self._advance()

    def take(self, number: int) -> list[Arrays]:
        """Returns the answers to a batch's pull, one per server."""
        with self._changed:
            while number not in self._pulls:
                self._raise()
                if not self._changed.wait(PATIENCE_S):
                    self._while_waiting()
            answers = self._pulls.pop(number)
        return [answer.result() for answer in answers]

    def push(self, number: int, answers: Sequence[Call]) -> None:
        """Queues the calls that push a batch's gradients, in batch order."""
        self._pushes.put((number, answers))

    def results(self) -> list[Pushed]:
        """Returns the results of the pushes since the last call, in batch order."""
        with self._changed:
            self._raise()
            results, self._results = self._results, []
            return results

    def drain(self, number: int) -> None:
        """Waits until every push before a batch is applied."""
        with self._changed:
            while self._done < number:
                self._raise()
                if not self._changed.wait(PATIENCE_S):
                    self._while_waiting()
            self._raise()

    @property
    def next_number(self) -> int:
        """The first batch that was not pulled."""
        return self._next_pull

    def close(self) -> list[int]:
        """Ends the thread after the queued pushes; returns the batches that were pulled but never pushed."""
        self._pushes.put(None)
        while self._thread.is_alive():
            self._thread.join(PATIENCE_S)
            self._while_waiting()
        for answers in self._pulls.values():
            for answer in answers:
                answer.result()
        return sorted(self._pulls)

    def _advance(self) -> None:
        try:
            while self._next_pull in self._requests and self._next_pull - self._staleness <= self._done:
                request = self._requests.pop(self._next_pull)
                self._pulls[self._next_pull] = self._pull(self._next_pull, request)
                self._next_pull += 1
        finally:
            self._changed.notify_all()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while (work := self._pushes.get()) is not None:
                number, answers = work
                result = self._finish(answers)
                with self._changed:
                    self._results.append(result)
                    self._done = number + 1
                    self._advance()
        except BaseException as error:  # noqa: BLE001 - raised at the rank's next call
            with self._changed:
                self._error = error
                self._changed.notify_all()
