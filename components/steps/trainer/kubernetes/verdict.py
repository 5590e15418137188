"""Whether a training job has ended, how, and whether it is worth starting again: decided from what is observed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import Pod
from typing_extensions import assert_never

from components.steps.trainer.kubernetes.jobset import JobSet
from components.steps.trainer.kubernetes.manifests import TrainingJob
from components.steps.trainer.kubernetes.mpijob import LAUNCHER_SUFFIX, JobCondition, MPIJob
from components.steps.trainer.kubernetes.run import FINAL_CODES, TrainingRun
from components.steps.trainer.kubernetes.trouble import component_of, ended, exit_of, last_exit_of, was_disrupted

Outcome = Literal["done", "failed", "lost"]
_MOST_TOLD = 5


@dataclass(frozen=True)
class End:
    """How a job has ended.

    Attributes:
        outcome: lost: its coordinator's pods were taken away, so that another try may go well.
        reason: in words, for what is not done.
    """

    outcome: Outcome
    reason: str = ""


def ended_job(job: TrainingJob | None, uid: str, pods: Mapping[str, Pod]) -> End | None:
    """Returns how a job has ended, None while it has not; a failed one is looked into by `failure`.

    Args:
        job: as it is now; None: it is gone.
        uid: of the job that was started or adopted.
        pods: by name.
    """
    if job is None or job.metadata is None or job.metadata.uid != uid or job.metadata.deletionTimestamp:
        return End("failed", "training: somebody else has deleted its job; run the step again, it goes on from there")
    for pod in _coordinators(pods):
        end = exit_of(pod)
        # The operator would start it again, with the same end.
        if end is not None and end.exitCode in FINAL_CODES:
            return End("failed", f"training: {ended(pod)}")
    match job:
        case MPIJob():
            # Evicted workers also make it "Failed" for a while, but then it has no time of completion.
            if job.status is None or not job.status.completionTime:
                return None
            return _by_conditions(job.status.conditions, done="Succeeded")
        case JobSet():
            return _by_conditions(job.status.conditions if job.status else None, done="Completed")
        case _:
            assert_never(job)


def coordinator_job(run: TrainingRun) -> str:
    """Returns the name of the batch/v1 Job with the coordinator, which the operator makes."""
    suffix = LAUNCHER_SUFFIX if run.launch.launcher.kind == "mpijob" else "-coordinator-0"
    return f"{run.name}{suffix}"


def failure(run: TrainingRun, end: End, job: Job | None, pods: Mapping[str, Pod]) -> End:
    """Returns a failed job's end with its cause.

    Args:
        run: of the job.
        end: what the job itself says.
        job: with the coordinator, where it is still there.
        pods: all that have been seen, by name.
    """
    failed = next(
        (each for each in (job and job.status and job.status.conditions) or [] if each.type == "Failed"), None
    )
    if failed is not None and failed.reason == "DeadlineExceeded":
        text = f"training: not done after {run.cluster.deadline_s} s; raise cluster.deadline_s, or train on less"
        return End("failed", text)
    coordinators = _coordinators(pods)
    # Otherwise it is a host that failed the job, and its end the coordinator's.
    is_lost = failed is not None and bool(coordinators) and was_disrupted(coordinators[-1])
    # Those that ended first: what came after may be their doing.
    in_order = sorted(pods.values(), key=lambda pod: str((last := last_exit_of(pod)) and last.finishedAt))
    told = [text for pod in in_order if (text := ended(pod))][:_MOST_TOLD]
    return End("lost" if is_lost else "failed", "\n".join([f"training: {end.reason}", *told]))


def _by_conditions(conditions: list[JobCondition] | None, *, done: str) -> End | None:
    true = {each.type: each for each in conditions or [] if each.status == "True"}
    if done in true:
        return End("done")
    if failed := true.get("Failed"):
        return End("failed", f"the job failed: {failed.reason}: {failed.message}")
    return None


def _coordinators(pods: Mapping[str, Pod]) -> list[Pod]:
    """Returns the coordinator's pods, the newest last."""
    found = [pod for pod in pods.values() if component_of(pod) == "coordinator"]
    return sorted(found, key=lambda pod: str(pod.metadata and pod.metadata.creationTimestamp))
