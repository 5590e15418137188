"""A rank's connection to a server for one kind of call: answers come in the order of the calls."""

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from sangam.trainer_module.checkpoint.files import CheckpointError, DamagedError
from sangam.trainer_module.parameter_server.calls import HELLO, METHODS, Status
from sangam.trainer_module.parameter_server.stream import LOST_AFTER_S, PATIENCE_S, Stream, connect
from sangam.trainer_module.parameter_server.wire import Caller, MessageError

_LOG = logging.getLogger("sangam.trainer_module.rank")
_PAUSE_S = 0.2

Arrays = list[NDArray[Any]]


class ServerLostError(RuntimeError):
    """A parameter server does not answer; the attempt ends, and the next one resumes from the last checkpoint."""


class Call:
    """A call under way; the same message is sent again until an answer arrives."""

    def __init__(self, lane: "Lane", method: str, caller: Caller, arrays: Sequence[NDArray[Any]]):
        self._lane = lane
        self.kind, self.caller, self.sent = METHODS.index(method), caller, arrays
        self.answer: Arrays | Exception | None = None
        self.done = threading.Lock()
        self.done.acquire()
        self.sent_on: Stream | None = None

    def again(self) -> "Call":
        """Calls again with the same message; returns itself."""
        self.answer = self.sent_on = None
        self.done.acquire()
        self._lane.add(self)
        return self

    def result(self) -> Arrays:
        """Waits for the answer.

        Raises:
            ServerLostError: no word for `LOST_AFTER_S`.
            CheckpointError: the server's checkpoint is damaged or does not fit.
            RuntimeError: the server refused the call.
        """
        self._lane.wait_for(self)
        assert self.answer is not None
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Lane:
    """Sends calls at once; reads the answers when they are waited for, or, in a thread, when they come."""

    def __init__(self, number: int, server: int, address: str, *, attempt: int, rank: int, reads_ahead: bool):
        """Connects with the first call.

        Args:
            number: see `calls.lane_of`.
            server: number of the server.
            address: its host:port.
            attempt: number of the attempt.
            rank: the calling rank.
            reads_ahead: whether a thread reads answers: large ones would otherwise travel while they are waited for.
        """
        self._number, self._server, self._address = number, server, address
        self._attempt, self._rank = attempt, rank
        self._sending, self._reading = threading.Lock(), threading.Lock()
        self._waiting: deque[Call] = deque()
        self._stream: Stream | None = None
        self._is_closed = False
        self._due: queue.SimpleQueue[bool] | None = None
        """Whether another call is under way, or the connection is closed: for the thread that reads."""
        if reads_ahead:
            self._due = queue.SimpleQueue()
            threading.Thread(target=self._read_ahead, args=[self._due], name="answers", daemon=True).start()

    def add(self, call: Call) -> None:
        """Sends a call; after a failure it is sent when all calls before it are answered."""
        if self._is_closed:
            raise ServerLostError(f"training: the connection to parameter server {self._server} is closed")
        with self._sending:
            is_behind = bool(self._waiting) and (self._stream is None or self._waiting[-1].sent_on is not self._stream)
            self._waiting.append(call)
            if not is_behind:
                try:
                    self._send(call)
                except OSError:
                    self._disconnect()  # The reader connects again.
        if self._due is not None:
            self._due.put(True)

    def wait_for(self, call: Call) -> None:
        """Waits until a call is answered."""
        if self._due is None:
            with self._reading:
                while call.answer is None:
                    self._finish_oldest()
        with call.done:
            pass

    def close(self) -> None:
        """Closes the connection; calls under way fail."""
        self._is_closed = True
        if self._stream is not None:
            self._stream.close()
        if self._due is not None:
            self._due.put(False)

    def _read_ahead(self, due: "queue.SimpleQueue[bool]") -> None:
        while due.get():
            self._finish_oldest()

    def _finish_oldest(self) -> None:
        """Reads the answer to the oldest call, and calls again until there is one."""
        call, heard = self._waiting[0], time.monotonic()
        while call.answer is None:
            try:
                if call.sent_on is None or call.sent_on is not self._stream:
                    with self._sending:
                        self._send(call)
                assert call.sent_on is not None
                call.answer = self._answer_from(call.sent_on, call)
                heard = time.monotonic()
            except (OSError, MessageError) as error:
                call.answer = self._lost(error) if self._is_closed or time.monotonic() - heard > LOST_AFTER_S else None
                with self._sending:
                    self._disconnect()
                if call.answer is None:
                    _LOG.warning("parameter server %d: %s; calling again", self._server, error)
                    time.sleep(_PAUSE_S)
            except Exception as error:  # noqa: BLE001 - raised where the call is waited for
                call.answer = error
        self._waiting.popleft()
        call.done.release()

    def _answer_from(self, stream: Stream, call: Call) -> Arrays | Exception | None:
        """Reads one message; returns None if it says that the call is under way."""
        head = stream.head()
        if head is None:
            raise ConnectionError("the connection was closed")
        if head.kind == Status.UNDER_WAY and not head.length:
            return None
        arrays = stream.arrays(head)
        if head.kind == Status.DONE:
            if head.caller != call.caller:
                raise MessageError(f"an answer to another call (got that of {head.caller} to {call.caller})")
            return arrays
        return _meant(head.kind, arrays[0].tobytes().decode(errors="replace") if arrays else "")

    def _send(self, call: Call) -> None:
        if self._stream is None:
            self._stream = connect(self._address)
            self._stream.limit(PATIENCE_S + LOST_AFTER_S)
            self._stream.send(HELLO, Caller(self._attempt, self._rank, self._number))
        call.sent_on = self._stream
        self._stream.send(call.kind, call.caller, call.sent)

    def _disconnect(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream = None

    def _lost(self, error: Exception) -> Exception:
        return ServerLostError(
            f"training: parameter server {self._server} at {self._address} has not answered for {LOST_AFTER_S:.0f} s "
            f"(got {error})"
        )


def _meant(status: int, text: str) -> Exception:
    """Returns the exception for a server's answer."""
    if status == Status.DAMAGED:
        return DamagedError(text)
    if status == Status.UNFIT:
        return CheckpointError(text)
    return RuntimeError(f"training: a parameter server refused a call ({text})")
