"""Leads a training job of several hosts: `python -m sangam.trainer_module.launch.coordinator JOB_FILE --hosts N ...`.

Serves the ranks' rendezvous and the hosts' messages on one port, begins attempts when all hosts are present, ends and
repeats them when a rank or a host is lost, then exports. It can be killed and restarted: the hosts wait for it, and
training resumes from the last checkpoint. `sangam.trainer_module.launch.messages` defines the messages.
"""

from sangam.schemas.host.early_sigterm import exit_on

if __name__ == "__main__":
    exit_on()  # Before the imports below, which take a second.

import argparse
import logging
import sys
import time
import uuid
from pathlib import Path

from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.contracts.training_job import TrainJob, find_job
from sangam.schemas.errors import UserError
from sangam.schemas.host.environment import settle
from sangam.schemas.host.plain_text import log_to_stderr
from sangam.trainer_module.launch.attempts import EXPORT_MODULE, POLL_S, conclude, is_trained
from sangam.trainer_module.launch.deadline import Deadline
from sangam.trainer_module.launch.failures import JobFailedError
from sangam.trainer_module.launch.hosts import Hosts
from sangam.trainer_module.launch.lost import Losses
from sangam.trainer_module.launch.processes import Stopped, stop_on_sigterm
from sangam.trainer_module.launch.rendezvous import Rendezvous

_LOG = logging.getLogger("sangam.trainer_module.launch.coordinator")
_SAY_WHO_IS_MISSING_S = 30.0
_FAREWELL_S = 8.0  # Less than its pod's grace period.
_ARRIVAL_S = 3.0


class Coordinator:
    """Runs the attempts of one job on its hosts."""

    def __init__(self, job: TrainJob, hosts: Hosts, rendezvous: Rendezvous):
        """Takes the job and its hosts.

        Args:
            job: the training job.
            hosts: hosts of the ranks and the parameter servers.
            rendezvous: rendezvous of the ranks.
        """
        self._job, self._hosts, self._rendezvous = job, hosts, rendezvous
        # The pool and the hosts outlive this process: the attempts of a restarted one need other names.
        self._incarnation = uuid.uuid4().hex[:12]

    def train(self, attempt: int, deadline: Deadline) -> None:
        """Runs one attempt.

        Raises:
            JobFailedError: the attempt failed; no reachable host still runs a process of it.
        """
        self._wait_for_hosts(deadline)
        if is_trained(self._job):  # The ranks finished while no coordinator ran.
            return
        self._rendezvous.forget()
        self._hosts.begin(f"{self._incarnation}-{attempt}")
        try:
            while not self._hosts.are_done():
                deadline.check()
                time.sleep(POLL_S)
        except JobFailedError as error:
            if error.cause == "late":
                raise
            # When a host is lost, the processes of all others fail too, and may report their failures first.
            self._hosts.rest()
            while not self._hosts.have_applied():
                time.sleep(POLL_S)
            raise self._hosts.failed() from error
        self._hosts.rest()

    def part(self, code: int) -> None:
        """Sends the job's result to the hosts, and waits for their replies for a limited time.

        Args:
            code: the exit code; 143: the job has not ended, and the hosts end their processes and wait for the next
                coordinator.
        """
        if code == ExitCode.TERMINATED:
            self._hosts.rest()
        else:
            self._hosts.close(is_done=code == 0)
        started = time.monotonic()
        while (waited_s := time.monotonic() - started) < _FAREWELL_S:
            # A coordinator that restarts after the job is done knows no hosts yet; they may be gone.
            may_come = code != ExitCode.TERMINATED and waited_s < _ARRIVAL_S and not self._hosts.are_all_here()
            if self._hosts.have_applied() and not may_come:
                return
            time.sleep(POLL_S)
        _LOG.info("not all hosts have heard how it ended")

    def _wait_for_hosts(self, deadline: Deadline) -> None:
        next_word = time.monotonic()
        while missing := self._hosts.missing():
            names = ", ".join(missing)
            if time.monotonic() >= next_word:
                next_word += _SAY_WHO_IS_MISSING_S
                _LOG.info("waiting for %s", names)
            deadline.check(waiting_for=names)
            time.sleep(POLL_S)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sangam.trainer_module.launch.coordinator")
    parser.add_argument("job_file", type=Path)
    parser.add_argument("--hosts", type=int, required=True, help="number of those with ranks")
    parser.add_argument("--port", type=int, required=True, help="to serve on")
    parser.add_argument("--service", default="", help="host:port of the tf.data service's dispatcher; none: no pool")
    parser.add_argument("--bind", default="", help="address to serve on; none: all")
    parser.add_argument(
        "--lost-after-s", type=float, default=30.0, help="seconds of silence after which a host is lost"
    )
    return parser.parse_args()


def main(*, export_module: str = EXPORT_MODULE) -> int:
    """Runs a job on its hosts; returns the exit code."""
    settle()
    log_to_stderr()
    arguments = _arguments()
    try:
        stop_on_sigterm()
        job = find_job(arguments.job_file)
        ranks = job.ranker.cluster.ranks
        if arguments.hosts < 1 or ranks % arguments.hosts:
            raise UserError(f"--hosts: does not divide the ranks (got {arguments.hosts}); a divisor of {ranks}")
        hosts = Hosts(
            arguments.hosts,
            servers=job.ranker.num_parameter_servers,
            service=arguments.service,
            lost_after_s=arguments.lost_after_s,
        )
        with Rendezvous(
            ranks, hosts=arguments.hosts, address=arguments.bind, port=arguments.port, messages=hosts
        ) as rendezvous:
            _LOG.info("start spec_digest=%s port=%d", job.spec_digest, rendezvous.port)
            coordinator = Coordinator(job, hosts, rendezvous)
            code = conclude(
                arguments.job_file,
                job,
                Losses(job),
                coordinator.train,
                leader="coordinator",
                export_module=export_module,
            )
            coordinator.part(code)
            return code
    except UserError as error:
        _LOG.error("%s", error)
        return ExitCode.MISTAKE
    except Stopped:
        return ExitCode.TERMINATED


if __name__ == "__main__":
    sys.exit(main())
