"""JobSet (jobset.x-k8s.io/v1alpha2): one Job with the coordinator, one indexed Job with the hosts.

`failurePolicy.rules` need JobSet 0.6 or later.
"""

from dataclasses import replace
from typing import Any, ClassVar, Optional, Self

from lightkube.core.resource import ApiInfo, ResourceDef
from lightkube.core.schema import DictMixin, dataclass
from lightkube.models.batch_v1 import (
    JobSpec,
    JobTemplateSpec,
    PodFailurePolicy,
    PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyOnPodConditionsPattern,
    PodFailurePolicyRule,
)
from lightkube.models.core_v1 import PodTemplateSpec
from lightkube.models.meta_v1 import ObjectMeta

from sangam.components.steps.trainer.kubernetes.envelope import SECONDS_AFTER_FINISHED, TrainingJob
from sangam.components.steps.trainer.kubernetes.run import FINAL_CODES, TrainingRun
from sangam.components.steps.trainer.kubernetes.training_pods import TrainingPods
from sangam.schemas.spec.cluster import MAX_RETRIES

_COORDINATOR, _HOST = "coordinator", "host"


@dataclass
class ReplicatedJob(DictMixin):
    """A Job of the set."""

    name: str
    replicas: int
    template: JobTemplateSpec


@dataclass
class Network(DictMixin):
    """Names of the pods."""

    enableDNSHostnames: bool


@dataclass
class SuccessPolicy(DictMixin):
    """The condition of the set's success."""

    operator: str
    targetReplicatedJobs: list[str]


@dataclass
class FailurePolicyRule(DictMixin):
    """The action for a Job that failed for certain reasons."""

    name: str
    action: str
    onJobFailureReasons: list[str]


@dataclass
class FailurePolicy(DictMixin):
    """The condition of the set's failure."""

    maxRestarts: int
    rules: list[FailurePolicyRule]


@dataclass
class JobSetSpec(DictMixin):
    """The spec of a JobSet."""

    failurePolicy: FailurePolicy
    network: Network
    replicatedJobs: list[ReplicatedJob]
    successPolicy: SuccessPolicy
    suspend: bool
    ttlSecondsAfterFinished: int


@dataclass
class JobSet(TrainingJob):
    """The resource."""

    spec: Optional[JobSetSpec] = None  # noqa: UP045

    _api_info = ApiInfo(
        resource=ResourceDef("jobset.x-k8s.io", "v1alpha2", "JobSet"),
        plural="jobsets",
        verbs=["delete", "get", "list", "patch", "post", "watch"],
    )
    index_field = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    coordinator_suffix = f"-{_COORDINATOR}-0"
    done = "Completed"
    has_completion_time = False
    resumed: ClassVar[dict[str, Any]] = {"suspend": False}
    is_removed = True
    replaces_failed_hosts = True

    @property
    def is_suspended(self) -> bool:
        return self.spec is not None and self.spec.suspend

    @classmethod
    def around(cls, run: TrainingRun, pods: TrainingPods) -> Self:
        """Returns the set of a run."""
        # The coordinator enforces cluster.retries. The limits of Kubernetes are fixed, and higher.
        # Without a matching rule, all Jobs are created again, up to maxRestarts times
        # (kubernetes-sigs/jobset, pkg/controllers/failure_policy.go).
        rules = [
            FailurePolicyRule(name="mistake", action="FailJobSet", onJobFailureReasons=["PodFailurePolicy"]),
            FailurePolicyRule(name="deadline", action="FailJobSet", onJobFailureReasons=["DeadlineExceeded"]),
        ]
        return cls(
            metadata=ObjectMeta(name=run.name, labels=run.selector),
            spec=JobSetSpec(
                failurePolicy=FailurePolicy(maxRestarts=MAX_RETRIES, rules=rules),
                # Hosts find the coordinator by its Service, and send it their addresses.
                network=Network(enableDNSHostnames=False),
                replicatedJobs=[
                    ReplicatedJob(name=_COORDINATOR, replicas=1, template=_coordinator_job(run, pods.coordinator)),
                    ReplicatedJob(name=_HOST, replicas=1, template=_host_job(run, pods.host)),
                ],
                # The coordinator ends the hosts: the set need not wait for them.
                successPolicy=SuccessPolicy(operator="All", targetReplicatedJobs=[_COORDINATOR]),
                suspend=True,
                ttlSecondsAfterFinished=SECONDS_AFTER_FINISHED,
            ),
        )


def _coordinator_job(run: TrainingRun, pod: PodTemplateSpec) -> JobTemplateSpec:
    final = PodFailurePolicyRule(
        action="FailJob",
        onExitCodes=PodFailurePolicyOnExitCodesRequirement(
            containerName="coordinator", operator="In", values=[int(code) for code in FINAL_CODES]
        ),
    )
    return JobTemplateSpec(
        spec=JobSpec(
            activeDeadlineSeconds=run.cluster.deadline_s,
            backoffLimit=MAX_RETRIES,
            podFailurePolicy=PodFailurePolicy(rules=[final, _preempted()]),
            template=_without_restart(pod),
        )
    )


def _host_job(run: TrainingRun, pod: PodTemplateSpec) -> JobTemplateSpec:
    return JobTemplateSpec(
        spec=JobSpec(
            # A Job counts the pods of all hosts.
            backoffLimit=run.num_hosts * MAX_RETRIES,
            completionMode="Indexed",
            completions=run.num_hosts,
            parallelism=run.num_hosts,
            podFailurePolicy=PodFailurePolicy(rules=[_preempted()]),
            template=_without_restart(pod),
        )
    )


def _preempted() -> PodFailurePolicyRule:
    """Returns the rule that replaces a pod that has lost its node without counting a failure."""
    disrupted = PodFailurePolicyOnPodConditionsPattern(type="DisruptionTarget", status="True")
    return PodFailurePolicyRule(action="Ignore", onPodConditions=[disrupted])


def _without_restart(pod: PodTemplateSpec) -> PodTemplateSpec:
    """Returns a pod that is replaced by a new one when it fails: a podFailurePolicy requires it."""
    assert pod.spec is not None
    return replace(pod, spec=replace(pod.spec, restartPolicy="Never"))
