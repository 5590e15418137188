"""What a coordinator knows of its hosts, and what it tells them."""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from trainer_module.launch.failures import Cause, Failure, JobFailedError, first_cause
from trainer_module.launch.messages import Beat, Order

_LOG = logging.getLogger(__name__)


@dataclass
class _Host:
    """One process that is a host.

    Attributes:
        beat: its last.
        heard: when.
        has_obeyed: it does what all hosts were last told, or has heard it and ended.
    """

    beat: Beat
    heard: float
    has_obeyed: bool = False


@dataclass
class _Attempt:
    """Ranks of all hosts together.

    Attributes:
        label: names it.
        members: incarnations of the hosts that take part.
        failures: by host, what was first noticed of it.
    """

    label: str
    members: frozenset[str]
    failures: dict[int, Failure] = field(default_factory=dict)


class Hosts:
    """The hosts of a job. Beats come from the server's threads, questions and decisions from the coordinator's.

    A host that was silent for `lost_after_s` is lost to the attempt, and welcome to the next. A new process with the
    index of another replaces it. If the old one may still run ranks, nothing is begun until it has said that it does
    not, or has been silent for so long that it has ended them by itself: two processes that are the same rank would
    write the same files.
    """

    def __init__(self, number: int, *, service: str, lost_after_s: float, clock: Callable[[], float] = time.monotonic):
        self._number, self._service, self._lost_after_s, self._clock = number, service, lost_after_s, clock
        self._lock = threading.Lock()
        self._hosts: dict[int, _Host] = {}
        self._replaced: dict[str, tuple[int, float]] = {}  # Incarnation to index, and until when it may run ranks.
        self._attempt: _Attempt | None = None
        self._say: Literal["train", "wait", "done", "failed"] = "wait"

    def answer(self, message: bytes) -> bytes:
        """Replies to a beat.

        Raises:
            pydantic.ValidationError: it is none.
        """
        beat = Beat.model_validate_json(message)
        with self._lock:
            return self._order(beat).model_dump_json().encode()

    def missing(self) -> list[int]:
        """Returns the hosts that are not there, or of whom a process may still run ranks."""
        with self._lock:
            now = self._clock()
            found = {index for index, until in self._replaced.values() if until > now}
            for index in range(self._number):
                host = self._hosts.get(index)
                if host is None or not host.has_obeyed or self._is_silent(host):
                    found.add(index)
            return sorted(found)

    def begin(self, label: str) -> None:
        """Tells all hosts to train."""
        with self._lock:
            self._attempt = _Attempt(label, frozenset(host.beat.incarnation for host in self._hosts.values()))
            self._decide("train")
            _LOG.info("begin attempt=%s", label)

    def rest(self) -> None:
        """Tells all hosts to end their ranks, and to start none."""
        with self._lock:
            self._decide("wait")

    def close(self, *, is_done: bool) -> None:
        """Tells all hosts that the job has ended."""
        with self._lock:
            self._attempt = None
            self._decide("done" if is_done else "failed")

    def are_done(self) -> bool:
        """Returns whether all ranks of all hosts have ended well.

        Raises:
            JobFailedError: something has happened that ends the attempt. What led to it may not be known yet.
        """
        with self._lock:
            assert self._attempt
            self._note_silence()
            if self._attempt.failures:
                raise self._failed()
            beats = [host.beat for host in self._hosts.values()]
            return all(beat.attempt == self._attempt.label and beat.state == "done" for beat in beats)

    def have_obeyed(self) -> bool:
        """Returns whether every host does what it was last told, or is lost."""
        with self._lock:
            self._note_silence()
            return all(host.has_obeyed or self._is_silent(host) for host in self._hosts.values())

    def are_all_here(self) -> bool:
        """Returns whether every host is there or has been."""
        with self._lock:
            return len(self._hosts) == self._number

    def failed(self) -> JobFailedError:
        """Returns what has ended the attempt: of all that was noticed by now, what led to the rest."""
        with self._lock:
            return self._failed()

    def _failed(self) -> JobFailedError:
        assert self._attempt
        first = first_cause(list(self._attempt.failures.values()))
        return JobFailedError(first.cause, first.text, first.brief)

    def _decide(self, say: Literal["train", "wait", "done", "failed"]) -> None:
        self._say = say
        for host in self._hosts.values():
            host.has_obeyed = False

    def _is_silent(self, host: _Host) -> bool:
        return self._clock() - host.heard > self._lost_after_s

    def _note_silence(self) -> None:
        for host in self._hosts.values():
            if self._is_silent(host):
                self._note(host, "lost", f"has not been heard of for {self._clock() - host.heard:.0f} s")

    def _note(self, host: _Host, cause: Cause, what: str) -> None:
        if self._attempt and host.beat.incarnation in self._attempt.members:
            failure = Failure(cause=cause, text=f"training: host {host.beat.index} {what}")
            self._attempt.failures.setdefault(host.beat.index, failure)

    def _order(self, beat: Beat) -> Order:
        if beat.incarnation in self._replaced or beat.index >= self._number:
            if beat.leaves:
                self._replaced[beat.incarnation] = beat.index, 0.0
            return self._said("leave")
        known = self._hosts.get(beat.index)
        if known and known.beat.incarnation != beat.incarnation:
            self._replace(known)
            known = None
        if not known:
            _LOG.info("host=%d incarnation=%s is here", beat.index, beat.incarnation)
        host = self._hosts[beat.index] = known or _Host(beat, self._clock())
        host.beat, host.heard = beat, self._clock()
        if beat.leaves:
            _LOG.info("host=%d leaves", beat.index)
            self._note(host, "lost", "was asked to end by SIGTERM")
            del self._hosts[beat.index]
            return self._said("leave")
        if self._attempt and beat.failure and beat.attempt == self._attempt.label:
            self._attempt.failures.setdefault(beat.index, beat.failure)
        host.has_obeyed = self._say in ("done", "failed") or beat.state != "training"
        if self._say == "train" and self._attempt and beat.incarnation not in self._attempt.members:
            return self._said("wait")
        return self._said(self._say)

    def _replace(self, host: _Host) -> None:
        may_train = self._say == "train" or not host.has_obeyed
        _LOG.info("host=%d incarnation=%s is replaced", host.beat.index, host.beat.incarnation)
        self._note(host, "lost", "is gone: another process has come in its place")
        until = host.heard + self._lost_after_s if may_train else 0.0
        self._replaced[host.beat.incarnation] = host.beat.index, until

    def _said(self, say: Literal["train", "wait", "done", "failed", "leave"]) -> Order:
        return Order(
            say=say,
            attempt=self._attempt.label if self._attempt else "",
            hosts=self._number,
            service=self._service,
            alone_s=self._lost_after_s / 2,
        )
