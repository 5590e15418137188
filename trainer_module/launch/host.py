"""Runs one host's ranks: `python -m trainer_module.launch.host JOB_FILE --coordinator HOST:PORT ...`.

It does what the coordinator says, attempt after attempt, and watches its ranks with its own clock. When nobody answers
it ends its ranks, and waits for the coordinator's replacement. Its ranks end with it, however it ends.
"""

import argparse
import http.client
import logging
import os
import socket
import sys
import time
import uuid
from pathlib import Path

from pydantic import ValidationError

from schemas.contracts.exit_codes import ExitCode
from schemas.contracts.training_job import TrainJob, find_job
from schemas.derived.plan import refuse_unfit
from schemas.errors import UserError
from trainer_module.launch.failures import JobFailedError
from trainer_module.launch.memory import available_bytes
from trainer_module.launch.messages import Beat, Order
from trainer_module.launch.processes import Stopped, reap_strangers, stop_on_sigterm
from trainer_module.launch.rank_group import RANK_MODULE, RankGroup
from trainer_module.launch.rendezvous import HOST_PATH, MAX_BODY_BYTES, environment, slots_of

_LOG = logging.getLogger("trainer_module.launch.host")
_BEAT_S = 0.5
_REPLY_S = 2.0


class Link:
    """The way to the coordinator."""

    def __init__(self, address: str):
        """Notes the address.

        Args:
            address: host:port.

        Raises:
            UserError: it is none.
        """
        self.host, _, port = address.rpartition(":")
        if not self.host or not port.isdecimal():
            raise UserError(f"--coordinator: is no address (got {address!r}); host:port")
        self.port = int(port)

    def tell(self, beat: Beat) -> Order | None:
        """Returns the reply; None when there is none, for now."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=_REPLY_S)
        try:
            connection.request("POST", HOST_PATH, beat.model_dump_json())
            reply = connection.getresponse()
            return Order.model_validate_json(reply.read(MAX_BODY_BYTES)) if reply.status == http.client.OK else None
        except (OSError, http.client.HTTPException, ValidationError) as error:
            _LOG.debug("no reply: %r", error)
            return None
        finally:
            connection.close()


class Host:
    """One host of a job, from its first beat to its last."""

    def __init__(
        self, job_file: Path, job: TrainJob, link: Link, *, index: int, interface: str, rank_module: str = RANK_MODULE
    ):
        """Makes a host that runs nothing yet.

        Args:
            job_file: of the job.
            job: what it holds.
            link: to the coordinator.
            index: of this host.
            interface: of the network that ranks talk through.
            rank_module: of a rank.
        """
        self._job_file, self._job, self._link = job_file, job, link
        self._index, self._interface, self._rank_module = index, interface, rank_module
        self._beat = Beat(index=index, incarnation=uuid.uuid4().hex)
        self._group: RankGroup | None = None

    def follow(self, patience_s: float) -> int:
        """Does what the coordinator says until the job has ended.

        Args:
            patience_s: for how long there may be no coordinator.

        Returns:
            The exit code.
        """
        heard, alone_s = time.monotonic(), patience_s
        while True:
            self._look()
            asked = time.monotonic()
            order = self._link.tell(self._beat)
            if order is not None:
                heard, alone_s = asked, order.alone_s
                if order.say in ("done", "failed", "leave"):
                    self._end_ranks()
                    _LOG.info("ends, for the coordinator says: %s", order.say)
                    return ExitCode.DONE if order.say == "done" else ExitCode.FAILED
                self._obey(order)
            elif (silent_s := time.monotonic() - heard) > alone_s and self._group:
                _LOG.warning("no word of the coordinator for %.0f s: ends the ranks", silent_s)
                self._end_ranks(grace_s=0.0)
            elif silent_s > patience_s:
                _LOG.error("no word of the coordinator for %.0f s: gives up", silent_s)
                return ExitCode.FAILED
            time.sleep(_BEAT_S)

    def leave(self) -> None:
        """Ends the ranks and says so."""
        self._end_ranks()
        self._link.tell(self._beat.model_copy(update={"leaves": True}))

    def _look(self) -> None:
        """Notes how the ranks do."""
        if self._group is None:
            return
        for child in self._group.children:
            child.show()
        reap_strangers({child.pid for child in self._group.children})
        try:
            if self._group.are_done():
                self._note(state="done")
                self._group = None
        except JobFailedError as error:
            self._note_failure(error)
            self._group = None

    def _obey(self, order: Order) -> None:
        if order.say == "wait":
            self._end_ranks()
        elif order.attempt != self._beat.attempt:
            self._end_ranks()
            self._note(attempt=order.attempt, state="training", failure=None)
            try:
                self._group = self._ranks(order)
            except UserError as error:
                self._note_failure(JobFailedError("mistake", str(error)))

    def _ranks(self, order: Order) -> RankGroup:
        cluster = self._job.ranker.cluster
        here = cluster.ranks // order.hosts
        _refuse_unfit_network(self._index, self._interface)
        refuse_unfit(self._job.ranker, available_bytes(), ranks_here=here)
        slots = slots_of(cluster.ranks, order.hosts)

        def of(rank: int) -> dict[str, str]:
            return environment(slots[rank], address=self._link.host, port=self._link.port, interface=self._interface)

        return RankGroup(
            self._job_file,
            self._job,
            range(self._index * here, (self._index + 1) * here),
            of,
            parent_pid=os.getpid(),
            service=order.service,
            attempt=order.attempt,
            place=f" on host {self._index}",
            module=self._rank_module,
        )

    def _end_ranks(self, *, grace_s: float = 5.0) -> None:
        if self._group is not None:
            error = self._group.end(grace_s=grace_s)
            for child in self._group.children:
                child.show()
            self._group = None
            self._note(state="idle", failure=error.failure() if error else None)

    def _note_failure(self, error: JobFailedError) -> None:
        _LOG.error("%s", error)
        self._note(state="idle", failure=error.failure())

    def _note(self, **what: object) -> None:
        self._beat = self._beat.model_copy(update=what)


def _refuse_unfit_network(index: int, interface: str) -> None:
    names = [name for _, name in socket.if_nameindex()]
    if interface not in names:
        raise UserError(
            f"cluster.launcher.network_interface: host {index} has none of that name (got {interface}); one of "
            f"{', '.join(names)}"
        )
    if interface == "lo":
        return
    # Horovod 0.28 finds some of its connections by the machine's name, whatever the interface: the context of a process
    # set does not get it (horovod/common/gloo/gloo_context.cc, InitializeForProcessSet).
    name = socket.gethostname()
    try:
        address = socket.gethostbyname(name)
    except OSError as error:
        raise UserError(
            f"training: host {index} does not know its own name (got {name}: {error}); its /etc/hosts must say the "
            f"address of {interface}, as it does in a pod"
        ) from error
    if address.startswith("127."):
        raise UserError(
            f"training: other hosts could not reach host {index} by what it takes for its address (got {address} for "
            f"{name}); its /etc/hosts must say the address of {interface}, as it does in a pod"
        )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="trainer_module.launch.host")
    parser.add_argument("job_file", type=Path)
    parser.add_argument("--coordinator", required=True, help="host:port")
    parser.add_argument("--index", type=int, required=True, help="of this host, from 0")
    parser.add_argument("--interface", required=True, help="of the network that the ranks talk through")
    parser.add_argument("--patience-s", type=float, default=600.0, help="for how long there may be no coordinator")
    return parser.parse_args()


def main(*, rank_module: str = RANK_MODULE) -> int:
    """Runs a host; returns the exit code."""
    stop_on_sigterm()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    host = None
    try:
        arguments = _arguments()
        job = find_job(arguments.job_file)
        _LOG.info("start host=%d spec_digest=%s", arguments.index, job.spec_digest)
        host = Host(
            arguments.job_file,
            job,
            Link(arguments.coordinator),
            index=arguments.index,
            interface=arguments.interface,
            rank_module=rank_module,
        )
        return host.follow(arguments.patience_s)
    except UserError as error:
        _LOG.error("%s", error)
        return ExitCode.MISTAKE
    except Stopped:
        _LOG.info("stopped by SIGTERM")
        if host:
            host.leave()
        return ExitCode.TERMINATED


if __name__ == "__main__":
    sys.exit(main())
