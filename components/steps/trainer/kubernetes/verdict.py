"""Decides from the observed job and pods whether a training job has ended, how, and whether to restart it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import Pod

from sangam.components.steps.trainer.kubernetes.envelope import TrainingJob
from sangam.components.steps.trainer.kubernetes.run import FINAL_CODES, TrainingRun
from sangam.components.steps.trainer.kubernetes.trouble import (
    component_of,
    ended,
    exit_of,
    last_exit_of,
    met_its_limit,
    was_disrupted,
)

Outcome = Literal["done", "failed", "lost"]
_MAX_PODS = 5


@dataclass(frozen=True)
class End:
    """The end of a job.

    Attributes:
        outcome: outcome. `lost`: its coordinator was disrupted, so that a retry may succeed.
        reason: text; empty if the outcome is `done`.
    """

    outcome: Outcome
    reason: str = ""


def ended_job(job: TrainingJob | None, uid: str, pods: Mapping[str, Pod]) -> End | None:
    """Returns how a job ended, None while it runs; `failure` adds the cause of a failed one.

    Args:
        job: current state; None after its deletion.
        uid: UID of the job that was started or adopted.
        pods: pods by name.
    """
    if job is None or job.metadata is None or job.metadata.uid != uid or job.metadata.deletionTimestamp:
        return End("failed", "training: another client deleted its job; run the step again, which resumes")
    for pod in _coordinators(pods):
        end = exit_of(pod)
        # The operator would restart it, with the same result.
        if end is not None and end.exitCode in FINAL_CODES:
            return End("failed", f"training: {ended(pod)}")
    for pod in pods.values():
        if met_its_limit(pod):
            return End("failed", f"training: {ended(pod)}")
    conditions = {each.type: each for each in job.final_conditions()}
    if job.done in conditions:
        return End("done")
    if failed := conditions.get("Failed"):
        return End("failed", f"the job failed: {failed.reason}: {failed.message}")
    return None


def failure(run: TrainingRun, end: End, job: Job | None, pods: Mapping[str, Pod]) -> End:
    """Returns a failed job's end with its cause.

    Args:
        run: run of the job.
        end: end from the job's own status.
        job: coordinator's Job; None if it is gone.
        pods: all observed pods, by name.
    """
    failed = next(
        (each for each in (job and job.status and job.status.conditions) or [] if each.type == "Failed"), None
    )
    if failed is not None and failed.reason == "DeadlineExceeded":
        text = f"training: not done after {run.cluster.deadline_s} s; raise cluster.deadline_s, or train on less"
        return End("failed", text)
    coordinators = _coordinators(pods)
    # Otherwise a host has failed the job, which then ended the coordinator.
    is_lost = failed is not None and bool(coordinators) and was_disrupted(coordinators[-1])
    # The first ones to end are the likely cause of the others.
    in_order = sorted(pods.values(), key=lambda pod: str((last := last_exit_of(pod)) and last.finishedAt))
    ends = [text for pod in in_order if (text := ended(pod))][:_MAX_PODS]
    return End("lost" if is_lost else "failed", "\n".join([f"training: {end.reason}", *ends]))


def _coordinators(pods: Mapping[str, Pod]) -> list[Pod]:
    """Returns the coordinator's pods, the newest last."""
    coordinators = [pod for pod in pods.values() if component_of(pod) == "coordinator"]
    return sorted(coordinators, key=lambda pod: str(pod.metadata and pod.metadata.creationTimestamp))
