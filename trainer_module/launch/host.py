"""Runs one host's ranks, or a parameter server: `python -m sangam.trainer_module.launch.host JOB_FILE ...`.

It executes the coordinator's commands, attempt after attempt, and watches its processes with its own clock. If the
coordinator does not answer, it ends them and waits for its replacement. They end with this process, however it ends.
"""

from sangam.schemas.host.early_sigterm import exit_on

if __name__ == "__main__":
    exit_on()  # Before the imports below, which take a second.

import argparse
import logging
import os
import sys
import time
import uuid
from pathlib import Path

from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.contracts.training_job import RANK_ADDRESS, TrainJob, find_job
from sangam.schemas.derived.plan import refuse_unfit
from sangam.schemas.errors import UserError
from sangam.schemas.host.environment import drop_proxies, settle
from sangam.schemas.host.plain_text import log_to_stderr
from sangam.trainer_module.launch.failures import JobFailedError
from sangam.trainer_module.launch.link import Link
from sangam.trainer_module.launch.machine import refuse_unfit_machine
from sangam.trainer_module.launch.memory import available_bytes
from sangam.trainer_module.launch.messages import Command, Heartbeat, Lifeline, name_of
from sangam.trainer_module.launch.network import address_of, refuse_unfit_for_horovod
from sangam.trainer_module.launch.parameter_servers import SERVER_MODULE, ParameterServers
from sangam.trainer_module.launch.processes import Stopped, reap_strangers, stop_on_sigterm
from sangam.trainer_module.launch.rank_group import RANK_MODULE, RankGroup
from sangam.trainer_module.launch.rendezvous import environment, slots_of

_LOG = logging.getLogger("sangam.trainer_module.launch.host")
_HEARTBEAT_S = 0.5


class Host:
    """One host of a job, from its first heartbeat to its last."""

    def __init__(
        self,
        job_file: Path,
        job: TrainJob,
        link: Link,
        *,
        index: int,
        interface: str,
        rank_module: str = RANK_MODULE,
        server_module: str = SERVER_MODULE,
    ):
        """Creates a host without processes.

        Args:
            job_file: path of the job file.
            job: its content.
            link: connection to the coordinator.
            index: index of this host.
            interface: network interface for messages of ranks and servers.
            rank_module: module started for each rank.
            server_module: module started for a parameter server.
        """
        self._job_file, self._job, self._link = job_file, job, link
        self._index, self._interface = index, interface
        self._rank_module, self._server_module = rank_module, server_module
        self._heartbeat = Heartbeat(index=index, incarnation=uuid.uuid4().hex)
        self._group: RankGroup | ParameterServers | None = None
        self._name = ""

    def follow(self, patience_s: float) -> int:
        """Executes the coordinator's commands until the job has ended.

        Args:
            patience_s: seconds to wait for a coordinator.

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
                self._name = name_of(self._index, command.hosts)
                if command.action in ("done", "failed", "leave"):
                    self.leave()
                    _LOG.info("ending on the coordinator's command: %s", command.action)
                    return ExitCode.DONE if command.action == "done" else ExitCode.FAILED
                self._link.hold(Lifeline(incarnation=self._heartbeat.incarnation))
                self._apply(command)
            elif (silent_s := time.monotonic() - heard) > alone_s and self._group:
                _LOG.warning("no reply from the coordinator for %.0f s: ending my processes", silent_s)
                self._end_processes(grace_s=0.0)
                # The same coordinator may answer again before it considers this host lost: it must not wait for ranks.
                brief = f"{self._name} had no reply for {silent_s:.0f} s"
                self._note_failure(JobFailedError("lost", f"training: {brief} from the coordinator", brief))
            elif silent_s > patience_s:
                _LOG.error("no reply from the coordinator for %.0f s: giving up", silent_s)
                return ExitCode.FAILED
            time.sleep(_HEARTBEAT_S)

    def leave(self) -> None:
        """Ends the processes, and notifies the coordinator."""
        self._end_processes()
        self._link.send(self._heartbeat.model_copy(update={"leaves": True}))

    def _look(self) -> None:
        """Updates the recorded state of the processes."""
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
            self._end_processes()
        elif command.attempt != self._heartbeat.attempt:
            self._end_processes()
            self._note(attempt=command.attempt, state="training", failure=None)
            try:
                self._group = self._ranks(command) if self._index < command.hosts else self._server(command)
            except UserError as error:
                self._note_failure(JobFailedError("mistake", str(error)))

    def _ranks(self, command: Command) -> RankGroup:
        cluster = self._job.ranker.cluster
        here = cluster.ranks // command.hosts
        if self._job.ranker.transport(ranks_here=here) == "horovod":
            refuse_unfit_for_horovod(self._name, self._interface)
        address = address_of(self._name, self._interface)
        refuse_unfit(self._job.ranker, available_bytes(), ranks_here=here)
        refuse_unfit_machine(self._job, ranks=here, processes=here)
        slots = slots_of(cluster.ranks, command.hosts)

        def of(rank: int) -> dict[str, str]:
            place = environment(slots[rank], address=self._link.host, port=self._link.port, interface=self._interface)
            return {**place, RANK_ADDRESS: address}

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

    def _server(self, command: Command) -> ParameterServers:
        number = self._index - command.hosts
        address = address_of(self._name, self._interface)
        refuse_unfit(self._job.ranker, available_bytes(), ranks_here=0, servers_here=1)
        refuse_unfit_machine(self._job, ranks=0, processes=1)
        return ParameterServers(
            self._job_file,
            self._job,
            range(number, number + 1),
            attempt=command.attempt,
            address=address,
            module=self._server_module,
        )

    def _end_processes(self, *, grace_s: float = 5.0) -> None:
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


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sangam.trainer_module.launch.host")
    parser.add_argument("job_file", type=Path)
    parser.add_argument("--coordinator", required=True, help="host:port")
    parser.add_argument("--index", type=int, required=True, help="of this host among those of its kind, from 0")
    parser.add_argument("--after", type=int, default=0, help="number of hosts of other kinds before these")
    parser.add_argument("--interface", required=True, help="network interface for messages of ranks and servers")
    parser.add_argument("--patience-s", type=float, default=600.0, help="seconds to wait for a coordinator")
    return parser.parse_args()


def main(*, rank_module: str = RANK_MODULE, server_module: str = SERVER_MODULE) -> int:
    """Runs a host; returns the exit code."""
    settle()
    drop_proxies(os.environ)
    log_to_stderr()
    arguments = _arguments()
    host = None
    try:
        stop_on_sigterm()
        job = find_job(arguments.job_file)
        index = arguments.after + arguments.index
        _LOG.info("start host=%d spec_digest=%s", index, job.spec_digest)
        host = Host(
            arguments.job_file,
            job,
            Link(arguments.coordinator),
            index=index,
            interface=arguments.interface,
            rank_module=rank_module,
            server_module=server_module,
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
