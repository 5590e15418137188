"""The ranks on one machine, in one attempt of a job."""

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from sangam.schemas.contracts.training_job import TrainJob
from sangam.trainer_module.launch.children import Child, end
from sangam.trainer_module.launch.deadline import HeartbeatFile
from sangam.trainer_module.launch.failures import JobFailedError
from sangam.trainer_module.launch.nursery import Nursery

RANK_MODULE = "sangam.trainer_module"
_GLOO_S = 30
"""Horovod's timeout for ranks that do not answer, in seconds."""


def place_here(rank: int, ranks: int) -> dict[str, str]:
    """Returns a rank's environment variables where all ranks are on this machine and need no rendezvous."""
    return {"HOROVOD_RANK": str(rank), "HOROVOD_SIZE": str(ranks), "HOROVOD_LOCAL_SIZE": str(ranks)}


def clear_meeting(job: TrainJob) -> None:
    """Empties the folder in which an attempt's ranks find each other, see `collectives.share_memory`."""
    shutil.rmtree(job.ranks_folder, ignore_errors=True)
    job.ranks_folder.mkdir()


class RankGroup:
    """Watches processes with consecutive ranks."""

    def __init__(
        self,
        job_file: Path,
        job: TrainJob,
        ranks: range,
        environment: Callable[[int], Mapping[str, str]],
        *,
        parent_pid: int,
        service: str,
        attempt: str,
        host_suffix: str = "",
        module: str = RANK_MODULE,
        nursery: Nursery | None = None,
    ):
        """Starts the ranks.

        Args:
            job_file: path of the job file.
            job: its content.
            ranks: the ranks on this machine.
            environment: returns a rank's variables for connecting to the others.
            parent_pid: id of this process.
            service: host:port of the pool's dispatcher; empty without a pool.
            attempt: unique name of this attempt.
            host_suffix: suffix of a rank's name in errors, if there are several hosts.
            module: module started for each rank.
            nursery: see `Child`.
        """
        self._job = job
        self._mistakes = [job.mistake_file(rank) for rank in ranks]
        for file in self._mistakes:
            # An earlier attempt's file would count for this one.
            file.unlink(missing_ok=True)
        match job.ranker.transport(ranks_here=len(ranks)):
            case "shared_memory":
                clear_meeting(job)
            case "tcp":
                job.meeting_folder(attempt).mkdir(parents=True, exist_ok=True)
        cluster = job.ranker.cluster
        shared = {
            "OMP_NUM_THREADS": str(cluster.threads_per_rank),
            # Machines may differ in how long they load TensorFlow.
            "HOROVOD_GLOO_TIMEOUT_SECONDS": str(max(_GLOO_S, cluster.heartbeat_timeout_s)),
        }
        arguments = [module, str(job_file), str(parent_pid), service, attempt]
        self._left_at: float | None = None
        self.children: list[Child] = []
        for rank in ranks:
            own = {**shared, **environment(rank)}
            child = Child(job, f"rank-{rank}", arguments, own, host_suffix=host_suffix, nursery=nursery)
            self.children.append(child)
        # Now: before the first fork the nursery imports TensorFlow, which is no silence of a rank.
        self._heartbeats = [HeartbeatFile(job.heartbeat_file(rank)) for rank in ranks]

    def are_done(self) -> bool:
        """Returns whether all ranks have succeeded.

        Raises:
            JobFailedError: a rank failed or hangs; all have ended.
        """
        if all(child.exit_code() == 0 for child in self.children):
            return True
        error = self._failed() or self._left_early() or self._hung()
        if error is not None:
            raise self.end() or error
        return False

    def end(self, *, grace_s: float = 5.0) -> JobFailedError | None:
        """Ends all ranks.

        Returns:
            Their earlier failure, or None.
        """
        error = self._failed()
        end(self.children, grace_s)
        # Read after all have ended, so that every rank with a mistake has written it.
        mistake = next((file for file in self._mistakes if file.exists()), None)
        return JobFailedError("mistake", mistake.read_text()) if mistake else error

    def _failed(self) -> JobFailedError | None:
        """Returns the error of the rank that failed first, and so made the others fail; None if none failed.

        A rank killed by a signal comes first, else the one that stopped writing its log first.
        """
        failed = [child for child in self.children if child.exit_code()]
        killed = [child for child in failed if (child.exit_code() or 0) < 0]
        if not failed:
            return None
        return min(killed or failed, key=lambda child: child.log.stat().st_mtime).failed()

    def _hung(self) -> JobFailedError | None:
        """Returns the error of a rank that hangs: over Horovod, the ranks that wait for it are silent too."""
        limit_s = self._job.ranker.cluster.heartbeat_timeout_s
        if self._left_at is not None:
            return None  # They may wait for the ended rank.
        beating = zip(self.children, self._heartbeats, strict=True)
        silent = {child: heartbeat.silent_s() for child, heartbeat in beating if child.exit_code() is None}
        longest_s = max(silent.values(), default=0.0)
        if longest_s <= limit_s:
            return None
        stopped = (child for child, silent_s in silent.items() if silent_s > limit_s / 2 and child.is_stopped())
        hung = next(stopped, None) or max(silent, key=lambda child: silent[child])
        return hung.failed(f"has made no progress for {silent[hung]:.0f} s (cluster.heartbeat_timeout_s is {limit_s})")

    def _left_early(self) -> JobFailedError | None:
        """Returns the error of a rank that succeeded long before the others: all should end together."""
        limit_s = self._job.ranker.cluster.heartbeat_timeout_s
        ended = next((child for child in self.children if child.exit_code() == 0), None)
        if ended is None:
            return None
        self._left_at = self._left_at or time.monotonic()
        if time.monotonic() - self._left_at <= limit_s:
            return None
        return ended.failed(f"ended {limit_s} s before the others, which have not (cluster.heartbeat_timeout_s)")
