"""Runs one host's ranks: `python -m trainer_module.launch.host JOB_FILE --coordinator HOST:PORT ...`.

It applies the coordinator's commands, attempt after attempt, and watches its ranks with its own clock. When nobody
answers, it ends its ranks and waits for the coordinator's replacement. Its ranks end with it, however it ends.
"""

from schemas.early_sigterm import exit_on

if __name__ == "__main__":
    exit_on()  # Before the imports below, which take a second.

import argparse
import logging
import os
import socket
import sys
import time
import uuid
from pathlib import Path

from schemas.contracts.exit_codes import ExitCode
from schemas.contracts.training_job import TrainJob, find_job
from schemas.derived.plan import refuse_unfit
from schemas.errors import UserError
from trainer_module.launch.failures import JobFailedError
from trainer_module.launch.link import Link
from trainer_module.launch.memory import available_bytes
from trainer_module.launch.messages import Command, Heartbeat, Lifeline
from trainer_module.launch.processes import Stopped, reap_strangers, stop_on_sigterm
from trainer_module.launch.rank_group import RANK_MODULE, RankGroup
from trainer_module.launch.rendezvous import environment, slots_of

_LOG = logging.getLogger("trainer_module.launch.host")
_HEARTBEAT_S = 0.5


class Host:
    """One host of a job, from its first heartbeat to its last."""

    def __init__(
        self, job_file: Path, job: TrainJob, link: Link, *, index: int, interface: str, rank_module: str = RANK_MODULE
    ):
        """Makes a host that runs nothing yet.

        Args:
            job_file: path.
            job: its content.
            link: to the coordinator.
            index: of this host.
            interface: network interface for the ranks' messages.
            rank_module: started as each rank.
        """
        self._job_file, self._job, self._link = job_file, job, link
        self._index, self._interface, self._rank_module = index, interface, rank_module
        self._heartbeat = Heartbeat(index=index, incarnation=uuid.uuid4().hex)
        self._group: RankGroup | None = None

    def follow(self, patience_s: float) -> int:
        """Applies the coordinator's commands until the job has ended.

        Args:
            patience_s: how long to wait for a coordinator.

        Returns:
            The exit code.
        """
        heard, alone_s = time.monotonic(), patience_s
        while True:
            self._look()
            asked = time.monotonic()
            command = self._link.send(self._heartbeat)
            if command is not None:
                heard, alone_s = asked, command.alone_s
                if command.action in ("done", "failed", "leave"):
                    self._end_ranks()
                    _LOG.info("ending on the coordinator's command: %s", command.action)
                    return ExitCode.DONE if command.action == "done" else ExitCode.FAILED
                self._link.hold(Lifeline(incarnation=self._heartbeat.incarnation))
                self._apply(command)
            elif (silent_s := time.monotonic() - heard) > alone_s and self._group:
                _LOG.warning("no reply from the coordinator for %.0f s: ending the ranks", silent_s)
                self._end_ranks(grace_s=0.0)
                # The same coordinator may answer again, before it takes this host for lost: it must not wait for ranks.
                brief = f"host {self._index} had no reply for {silent_s:.0f} s"
                self._note_failure(JobFailedError("lost", f"training: {brief} from the coordinator", brief))
            elif silent_s > patience_s:
                _LOG.error("no reply from the coordinator for %.0f s: giving up", silent_s)
                return ExitCode.FAILED
            time.sleep(_HEARTBEAT_S)

    def leave(self) -> None:
        """Ends the ranks, and tells the coordinator."""
        self._end_ranks()
        self._link.send(self._heartbeat.model_copy(update={"leaves": True}))

    def _look(self) -> None:
        """Records the state of the ranks."""
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

    def _apply(self, command: Command) -> None:
        if command.action == "wait":
            self._end_ranks()
        elif command.attempt != self._heartbeat.attempt:
            self._end_ranks()
            self._note(attempt=command.attempt, state="training", failure=None)
            try:
                self._group = self._ranks(command)
            except UserError as error:
                self._note_failure(JobFailedError("mistake", str(error)))

    def _ranks(self, command: Command) -> RankGroup:
        cluster = self._job.ranker.cluster
        here = cluster.ranks // command.hosts
        _refuse_unfit_network(self._index, self._interface)
        refuse_unfit(self._job.ranker, available_bytes(), ranks_here=here)
        slots = slots_of(cluster.ranks, command.hosts)

        def of(rank: int) -> dict[str, str]:
            return environment(slots[rank], address=self._link.host, port=self._link.port, interface=self._interface)

        return RankGroup(
            self._job_file,
            self._job,
            range(self._index * here, (self._index + 1) * here),
            of,
            parent_pid=os.getpid(),
            service=command.service,
            attempt=command.attempt,
            host_suffix=f" on host {self._index}",
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
        self._heartbeat = self._heartbeat.model_copy(update=what)


def _refuse_unfit_network(index: int, interface: str) -> None:
    names = [name for _, name in socket.if_nameindex()]
    if interface not in names:
        raise UserError(
            f"cluster.launcher.network_interface: host {index} has no such interface (got {interface}); use one of "
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
            f"training: host {index} cannot resolve its own name (got {name}: {error}); its /etc/hosts must give it "
            f"the address of {interface}, as in a pod"
        ) from error
    if address.startswith("127."):
        raise UserError(
            f"training: other hosts cannot reach host {index} by its own address (got {address} for "
            f"{name}); its /etc/hosts must give the name the address of {interface}, as in a pod"
        )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="trainer_module.launch.host")
    parser.add_argument("job_file", type=Path)
    parser.add_argument("--coordinator", required=True, help="host:port")
    parser.add_argument("--index", type=int, required=True, help="of this host, from 0")
    parser.add_argument("--interface", required=True, help="network interface for the ranks' messages")
    parser.add_argument("--patience-s", type=float, default=600.0, help="seconds to wait for a coordinator")
    return parser.parse_args()


def main(*, rank_module: str = RANK_MODULE) -> int:
    """Runs a host; returns the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    arguments = _arguments()
    host = None
    try:
        stop_on_sigterm()
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
