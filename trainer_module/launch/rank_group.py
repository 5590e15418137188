"""The ranks that run on one machine, in one attempt of a job."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from schemas.contracts.training_job import TrainJob
from trainer_module.launch.children import Child, end
from trainer_module.launch.deadline import HeartbeatFile
from trainer_module.launch.failures import JobFailedError
from trainer_module.launch.lost import Losses
from trainer_module.launch.nursery import Nursery
from trainer_module.parameter_server.members import LEADER

RANK_MODULE = "trainer_module"
_GLOO_S = 30
"""How long Horovod waits for ranks that do not answer."""


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
        losses: Losses | None = None,
        nursery: Nursery | None = None,
    ):
        """Starts the ranks.

        Args:
            job_file: path.
            job: its content.
            ranks: those of this machine.
            environment: variables by which a rank finds the others.
            parent_pid: of this process.
            service: host:port of the pool's dispatcher; empty without a pool.
            attempt: unique name of this attempt at the job.
            host_suffix: follows a rank's name in errors, where there are several hosts.
            module: started as each rank.
            losses: counts ranks that are replaced while the others go on; None: the first loss ends all.
            nursery: see `Child`.
        """
        self._job, self._losses = job, losses if job.ranker.is_elastic else None
        self._mistakes = [job.mistake_file(rank) for rank in ranks]
        for file in self._mistakes:
            # A file of an earlier attempt would count for this one.
            file.unlink(missing_ok=True)
        cluster = job.ranker.cluster
        shared = {
            "OMP_NUM_THREADS": str(cluster.threads_per_rank),
            # Machines may differ in the time they take to load TensorFlow.
            "HOROVOD_GLOO_TIMEOUT_SECONDS": str(max(_GLOO_S, cluster.heartbeat_timeout_s)),
        }
        arguments = [module, str(job_file), str(parent_pid), service, attempt]
        self._heartbeats = [HeartbeatFile(job.heartbeat_file(rank)) for rank in ranks]
        self.children: list[Child] = []

        def start(rank: int) -> Child:
            found = {**shared, **environment(rank)}
            return Child(job, f"rank-{rank}", arguments, found, host_suffix=host_suffix, nursery=nursery)

        self._start, self._ranks = start, ranks
        self._replaced: set[int] = set()
        self._left_at: float | None = None
        self.children = [start(rank) for rank in ranks]

    def are_done(self) -> bool:
        """Returns whether all ranks have succeeded.

        Raises:
            JobFailedError: one failed or hangs; all of them have ended.
        """
        if all(child.exit_code() == 0 or index in self._replaced for index, child in enumerate(self.children)):
            return True  # Rank 0 ends when all is written; a replacement may still wait for its place.
        failed = self._failed() or self._left_early() or self._hung()
        if failed is not None and not self._replace(failed):
            raise self.end() or failed.error
        return False

    def _replace(self, failed: "_Failed") -> bool:
        """Starts one rank again while the others go on, if they can; returns whether they can.

        Raises:
            JobFailedError: too many processes were lost.
        """
        index = self.children.index(failed.child)
        is_mistake = any(file.exists() for file in self._mistakes)
        if self._losses is None or self._ranks[index] == LEADER or is_mistake or not failed.error.may_retry:
            return False
        self._losses.replace(failed.error)
        end([failed.child])
        self._heartbeats[index] = HeartbeatFile(self._job.heartbeat_file(self._ranks[index]))
        self.children[index] = self._start(self._ranks[index])
        self._replaced.add(index)
        self._left_at = None
        return True

    def end(self, *, grace_s: float = 5.0) -> JobFailedError | None:
        """Ends all ranks.

        Returns:
            Their failure before that, or None.
        """
        failed = self._failed()
        end(self.children, grace_s)
        # Read after all have ended, so that every rank that found a mistake has written it.
        mistake = next((file for file in self._mistakes if file.exists()), None)
        if mistake:
            return JobFailedError("mistake", mistake.read_text())
        return failed.error if failed else None

    def _failed(self) -> "_Failed | None":
        """Returns the rank that failed first, if one has failed: the others fail because it did.

        It was killed by a signal, or else wrote the last line of its log first.
        """
        failed = [child for child in self.children if child.exit_code()]
        killed = [child for child in failed if (child.exit_code() or 0) < 0]
        if not failed:
            return None
        first = min(killed or failed, key=lambda child: child.log.stat().st_mtime)
        return _Failed(first, first.failed())

    def _hung(self) -> "_Failed | None":
        """Returns a rank that hangs: over Horovod the others, which wait for it, are as silent."""
        limit_s = self._job.ranker.cluster.heartbeat_timeout_s
        if self._left_at is not None:
            return None  # They may wait for the one that has ended.
        beating = zip(self.children, self._heartbeats, strict=True)
        silent = {child: heartbeat.silent_s() for child, heartbeat in beating if child.exit_code() is None}
        longest_s = max(silent.values(), default=0.0)
        if longest_s <= limit_s:
            return None
        stopped = (child for child, silent_s in silent.items() if silent_s > limit_s / 2 and child.is_stopped())
        hung = next(stopped, None) or max(silent, key=lambda child: silent[child])
        how = f"has made no progress for {silent[hung]:.0f} s (cluster.heartbeat_timeout_s is {limit_s})"
        return _Failed(hung, hung.failed(how))

    def _left_early(self) -> "_Failed | None":
        """Returns a rank that has ended well long before the others: they end together, or wait for it for ever."""
        limit_s = self._job.ranker.cluster.heartbeat_timeout_s
        ended = next((child for child in self.children if child.exit_code() == 0), None)
        if ended is None:
            return None
        self._left_at = self._left_at or time.monotonic()
        if time.monotonic() - self._left_at <= limit_s:
            return None
        how = f"ended {limit_s} s before the others, which have not (cluster.heartbeat_timeout_s)"
        return _Failed(ended, ended.failed(how))


class _Failed(NamedTuple):
    child: Child
    error: JobFailedError
