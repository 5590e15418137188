"""The coordinator's state of its hosts, and its commands to them."""

import functools
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from sangam.trainer_module.launch.failures import Cause, Failure, JobFailedError, first_cause
from sangam.trainer_module.launch.messages import Command, Heartbeat, Lifeline, name_of

_LOG = logging.getLogger(__name__)


@dataclass
class _Host:
    """One host process.

    Attributes:
        heartbeat: its last heartbeat.
        heard: time of that heartbeat.
        has_applied: whether it has executed the last command.
        has_ended: whether it and its child processes have ended.
    """

    heartbeat: Heartbeat
    heard: float
    has_applied: bool = False
    has_ended: bool = False


@dataclass
class _Attempt:
    """One attempt on all hosts.

    Attributes:
        label: its name.
        members: incarnations of the participating hosts.
        failures: the first failure of each host.
    """

    label: str
    members: frozenset[str]
    failures: dict[int, Failure] = field(default_factory=dict)


class Hosts:
    """The hosts of a job, each with ranks or with a parameter server.

    The threads of the HTTP server deliver heartbeats; the coordinator's thread queries and decides.

    A host that is silent for `lost_after_s` is lost to the attempt, and may join the next. A new process with the index
    of another replaces it. No attempt begins while the old process may still run ranks: two processes with the same
    rank would write the same files. It runs none once it has reported so, once its kernel has closed its lifeline, or
    once it was silent for so long that it has ended them by itself.
    """

    def __init__(
        self,
        with_ranks: int,
        *,
        servers: int = 0,
        service: str,
        lost_after_s: float,
        clock: Callable[[], float] = time.monotonic,
    ):
        """Starts without hosts.

        Args:
            with_ranks: number of hosts with ranks.
            servers: number of further hosts, each with a parameter server.
            service: host:port of the pool's dispatcher; empty without a pool.
            lost_after_s: seconds of silence after which a host is lost.
            clock: returns seconds.
        """
        self._with_ranks, self._number = with_ranks, with_ranks + servers
        self._service, self._lost_after_s, self._clock = service, lost_after_s, clock
        self._lock = threading.Lock()
        self._hosts: dict[int, _Host] = {}
        # (index, time until which the process may run ranks) by incarnation.
        self._replaced: dict[str, tuple[int, float]] = {}
        self._attempt: _Attempt | None = None
        self._action: Literal["train", "wait", "done", "failed"] = "wait"

    def answer(self, message: bytes) -> bytes:
        """Replies to a heartbeat.

        Raises:
            pydantic.ValidationError: the message is invalid.
        """
        heartbeat = Heartbeat.model_validate_json(message)
        with self._lock:
            return self._reply(heartbeat).model_dump_json().encode()

    def hold(self, message: bytes) -> Callable[[], None]:
        """Returns a callback for the end of a lifeline's process.

        Raises:
            pydantic.ValidationError: the message is invalid.
        """
        return functools.partial(self._note_end, Lifeline.model_validate_json(message).incarnation)

    def missing(self) -> list[str]:
        """Returns the names of absent hosts, and of hosts whose replaced process may still run ranks."""
        with self._lock:
            now = self._clock()
            missing = {index for index, until in self._replaced.values() if until > now}
            for index in range(self._number):
                host = self._hosts.get(index)
                if host is None or not host.has_applied or self._is_lost(host):
                    missing.add(index)
            return [self._name(index) for index in sorted(missing)]

    def begin(self, label: str) -> None:
        """Commands all hosts to train."""
        with self._lock:
            self._attempt = _Attempt(label, frozenset(host.heartbeat.incarnation for host in self._hosts.values()))
            self._decide("train")
            _LOG.info("begin attempt=%s", label)

    def rest(self) -> None:
        """Commands all hosts to end their processes and start none."""
        with self._lock:
            self._decide("wait")

    def close(self, *, is_done: bool) -> None:
        """Reports the end of the job to all hosts."""
        with self._lock:
            self._attempt = None
            self._decide("done" if is_done else "failed")

    def are_done(self) -> bool:
        """Returns whether all ranks of all hosts have succeeded.

        Raises:
            JobFailedError: the attempt failed; its first cause may not be known yet.
        """
        with self._lock:
            assert self._attempt
            self._note_losses()
            if self._attempt.failures:
                raise self._failed()
            heartbeats = [self._hosts[index].heartbeat for index in range(self._with_ranks)]
            return all(
                heartbeat.attempt == self._attempt.label and heartbeat.state == "done" for heartbeat in heartbeats
            )

    def have_applied(self) -> bool:
        """Returns whether every host has executed the last command or is lost."""
        with self._lock:
            self._note_losses()
            return all(host.has_applied or self._is_lost(host) for host in self._hosts.values())

    def are_all_here(self) -> bool:
        """Returns whether every host has joined."""
        with self._lock:
            return len(self._hosts) == self._number

    def failed(self) -> JobFailedError:
        """Returns the root cause of the attempt's failures so far."""
        with self._lock:
            return self._failed()

    def _failed(self) -> JobFailedError:
        assert self._attempt
        first = first_cause(list(self._attempt.failures.values()))
        return JobFailedError(first.cause, first.text, first.brief)

    def _decide(self, action: Literal["train", "wait", "done", "failed"]) -> None:
        self._action = action
        for host in self._hosts.values():
            host.has_applied = False

    def _is_lost(self, host: _Host) -> bool:
        return host.has_ended or self._clock() - host.heard > self._lost_after_s

    def _note_end(self, incarnation: str) -> None:
        with self._lock:
            if incarnation in self._replaced:
                self._replaced[incarnation] = self._replaced[incarnation][0], 0.0
            for host in self._hosts.values():
                if host.heartbeat.incarnation == incarnation:
                    _LOG.info("%s: incarnation=%s has ended", self._name(host.heartbeat.index), incarnation)
                    host.has_ended = True

    def _note_losses(self) -> None:
        for host in self._hosts.values():
            if host.has_ended:
                self._note(host, "lost", "ended without a word, as when it is killed")
            elif self._is_lost(host):
                self._note(host, "lost", f"sent no heartbeat for {self._clock() - host.heard:.0f} s")

    def _note(self, host: _Host, cause: Cause, what: str) -> None:
        if self._attempt and host.heartbeat.incarnation in self._attempt.members:
            index = host.heartbeat.index
            failure = Failure(cause=cause, text=f"training: {self._name(index)} {what}")
            self._attempt.failures.setdefault(index, failure)

    def _name(self, index: int) -> str:
        return name_of(index, self._with_ranks)

    def _reply(self, heartbeat: Heartbeat) -> Command:
        if heartbeat.incarnation in self._replaced or heartbeat.index >= self._number:
            if heartbeat.leaves:
                self._replaced[heartbeat.incarnation] = heartbeat.index, 0.0
            return self._command("leave")
        known = self._hosts.get(heartbeat.index)
        if known and known.has_ended and known.heartbeat.incarnation == heartbeat.incarnation:
            return self._command("leave")  # A late heartbeat of an ended process.
        if known and known.heartbeat.incarnation != heartbeat.incarnation:
            self._replace(known)
            known = None
        if not known:
            _LOG.info("%s: incarnation=%s is here", self._name(heartbeat.index), heartbeat.incarnation)
        host = self._hosts[heartbeat.index] = known or _Host(heartbeat, self._clock())
        host.heartbeat, host.heard = heartbeat, self._clock()
        is_over = self._action in ("done", "failed")
        if heartbeat.leaves and is_over:
            host.has_applied = True  # Not when the reply is sent: it may be lost, or this process may end before.
            return self._command(self._action)
        if heartbeat.leaves:
            _LOG.info("%s: leaves", self._name(heartbeat.index))
            self._note(host, "lost", "was terminated by SIGTERM")
            del self._hosts[heartbeat.index]
            return self._command("leave")
        if self._attempt and heartbeat.failure and heartbeat.attempt == self._attempt.label:
            self._attempt.failures.setdefault(heartbeat.index, heartbeat.failure)
        if not is_over:
            host.has_applied = heartbeat.state != "training"
        if self._action == "train" and self._attempt and heartbeat.incarnation not in self._attempt.members:
            return self._command("wait")
        return self._command(self._action)

    def _replace(self, host: _Host) -> None:
        may_train = not host.has_ended and (self._action == "train" or not host.has_applied)
        _LOG.info("%s: incarnation=%s is replaced", self._name(host.heartbeat.index), host.heartbeat.incarnation)
        self._note(host, "lost", "was replaced by another process")
        until = host.heard + self._lost_after_s if may_train else 0.0
        self._replaced[host.heartbeat.incarnation] = host.heartbeat.index, until

    def _command(self, action: Literal["train", "wait", "done", "failed", "leave"]) -> Command:
        return Command(
            action=action,
            attempt=self._attempt.label if self._attempt else "",
            hosts=self._with_ranks,
            service=self._service,
            alone_s=self._lost_after_s / 2,
        )
