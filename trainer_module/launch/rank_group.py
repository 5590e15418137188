"""The ranks that run on one machine, in one attempt of a job."""

from collections.abc import Callable, Mapping
from pathlib import Path

from schemas.contracts.training_job import TrainJob
from trainer_module.launch.children import Child, end
from trainer_module.launch.deadline import Heartbeat
from trainer_module.launch.failures import JobFailedError

RANK_MODULE = "trainer_module"
_GLOO_S = 30
"""Horovod's own patience with ranks that do not answer."""


class RankGroup:
    """Processes with neighboring ranks, watched."""

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
        place: str = "",
        module: str = RANK_MODULE,
    ):
        """Starts the ranks.

        Args:
            job_file: of the job.
            job: what it holds.
            ranks: those of this machine.
            environment: says where a rank finds the others.
            parent_pid: of this process.
            service: host:port of the pool's dispatcher; empty without a pool.
            attempt: names this attempt of the job; no other has the same name.
            place: said after a rank's name, where there are several hosts.
            module: of a rank.
        """
        self._job = job
        self._mistakes = [job.mistake_file(rank) for rank in ranks]
        for file in self._mistakes:
            # Of an earlier attempt it would count for this one.
            file.unlink(missing_ok=True)
        cluster = job.ranker.cluster
        shared = {
            "OMP_NUM_THREADS": str(cluster.threads_per_rank),
            # Ranks start as far apart as their machines take to load TensorFlow.
            "HOROVOD_GLOO_TIMEOUT_SECONDS": str(max(_GLOO_S, cluster.heartbeat_timeout_s)),
        }
        arguments = [module, str(job_file), str(parent_pid), service, attempt]
        self._heartbeats = [Heartbeat(job.heartbeat_file(rank)) for rank in ranks]
        self.children: list[Child] = []
        for rank in ranks:
            own = {**shared, **environment(rank)}
            self.children.append(Child(job, f"rank-{rank}", arguments, own, place=place))

    def are_done(self) -> bool:
        """Returns whether all ranks have ended well.

        Raises:
            JobFailedError: one has not, or hangs; none of them runs any more.
        """
        if all(child.exit_code() == 0 for child in self.children):
            return True
        error = self._failed() or self._hung()
        if error:
            raise self.end() or error
        return False

    def end(self, *, grace_s: float = 5.0) -> JobFailedError | None:
        """Ends all ranks.

        Returns:
            What had happened to them before, None if nothing had.
        """
        error = self._failed()
        end(self.children, grace_s)
        # Read when all have ended, so that whoever has found a mistake has said so.
        found = next((file for file in self._mistakes if file.exists()), None)
        return JobFailedError("mistake", found.read_text()) if found else error

    def _failed(self) -> JobFailedError | None:
        """Returns the error of the rank that failed by itself rather than because a peer did, if one has failed.

        It was killed by a signal, or else said its last word first.
        """
        failed = [child for child in self.children if child.exit_code()]
        killed = [child for child in failed if (child.exit_code() or 0) < 0]
        if not failed:
            return None
        return min(killed or failed, key=lambda child: child.log.stat().st_mtime).failed()

    def _hung(self) -> JobFailedError | None:
        limit_s = self._job.ranker.cluster.heartbeat_timeout_s
        for child, heartbeat in zip(self.children, self._heartbeats, strict=True):
            silent_s = heartbeat.silent_s()
            if child.exit_code() is None and silent_s > limit_s:
                return child.failed(
                    f"has made no progress for {silent_s:.0f} s (cluster.heartbeat_timeout_s is {limit_s})"
                )
        return None
