"""JobSet (jobset.x-k8s.io/v1alpha2): one Job with the coordinator, one indexed Job with the hosts.

`failurePolicy.rules` are known to JobSet 0.6 and later.
"""

from typing import Optional

from lightkube.core.resource import ApiInfo, NamespacedResourceG, ResourceDef
from lightkube.core.schema import DictMixin, dataclass
from lightkube.models.batch_v1 import (
    JobSpec,
    JobTemplateSpec,
    PodFailurePolicy,
    PodFailurePolicyOnExitCodesRequirement,
    PodFailurePolicyOnPodConditionsPattern,
    PodFailurePolicyRule,
)
from lightkube.models.meta_v1 import ObjectMeta

from components.steps.trainer.kubernetes.conditions import JobCondition
from components.steps.trainer.kubernetes.run import FINAL_CODES, TrainingRun
from components.steps.trainer.kubernetes.training_pods import coordinator, host
from schemas.spec.cluster import MAX_RETRIES

_INDEX_FIELD = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
_SECONDS_AFTER_FINISHED = 3600
_COORDINATOR, _HOST = "coordinator", "host"

# `Optional`, not `| None`, in what follows: lightkube converts only the former.


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
    """When the set is done."""

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
    """When the set has failed."""

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
class JobSetStatus(DictMixin):
    """The status of a JobSet."""

    conditions: Optional[list[JobCondition]] = None  # noqa: UP045


@dataclass
class JobSetFields(DictMixin):
    """Fields of the resource."""

    spec: JobSetSpec
    apiVersion: Optional[str] = None  # noqa: UP045
    kind: Optional[str] = None  # noqa: UP045
    metadata: Optional[ObjectMeta] = None  # noqa: UP045
    status: Optional[JobSetStatus] = None  # noqa: UP045


class JobSet(NamespacedResourceG, JobSetFields):
    """The resource."""

    _api_info = ApiInfo(
        resource=ResourceDef("jobset.x-k8s.io", "v1alpha2", "JobSet"),
        plural="jobsets",
        verbs=["delete", "get", "list", "patch", "post", "watch"],
    )


def jobset(run: TrainingRun) -> JobSet:
    """Returns the set, suspended until the objects that its pods need exist."""
    # The coordinator enforces cluster.retries. The limits of Kubernetes are fixed, and never reached before that one.
    # Without a matching rule, all Jobs are created again, up to maxRestarts times
    # (kubernetes-sigs/jobset, pkg/controllers/failure_policy.go).
    rules = [
        FailurePolicyRule(name="mistake", action="FailJobSet", onJobFailureReasons=["PodFailurePolicy"]),
        FailurePolicyRule(name="deadline", action="FailJobSet", onJobFailureReasons=["DeadlineExceeded"]),
    ]
    return JobSet(
        metadata=ObjectMeta(name=run.name, labels=run.selector),
        spec=JobSetSpec(
            failurePolicy=FailurePolicy(maxRestarts=MAX_RETRIES, rules=rules),
            # Hosts find the coordinator by its Service, and send it their addresses.
            network=Network(enableDNSHostnames=False),
            replicatedJobs=[
                ReplicatedJob(name=_COORDINATOR, replicas=1, template=_coordinator_job(run)),
                ReplicatedJob(name=_HOST, replicas=1, template=_host_job(run)),
            ],
            # The coordinator ends the hosts: the set need not wait for them.
            successPolicy=SuccessPolicy(operator="All", targetReplicatedJobs=[_COORDINATOR]),
            suspend=True,
            ttlSecondsAfterFinished=_SECONDS_AFTER_FINISHED,
        ),
    )


def _coordinator_job(run: TrainingRun) -> JobTemplateSpec:
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
            template=coordinator(run, restart_policy="Never"),
        )
    )


def _host_job(run: TrainingRun) -> JobTemplateSpec:
    return JobTemplateSpec(
        spec=JobSpec(
            # A Job counts the pods of all hosts.
            backoffLimit=run.num_hosts * MAX_RETRIES,
            completionMode="Indexed",
            completions=run.num_hosts,
            parallelism=run.num_hosts,
            podFailurePolicy=PodFailurePolicy(rules=[_preempted()]),
            # A podFailurePolicy requires Never: a failed host gets a new pod.
            template=host(run, index_field=_INDEX_FIELD, restart_policy="Never"),
        )
    )


def _preempted() -> PodFailurePolicyRule:
    """Returns the rule that replaces a pod that has lost its node without counting a failure."""
    disrupted = PodFailurePolicyOnPodConditionsPattern(type="DisruptionTarget", status="True")
    return PodFailurePolicyRule(action="Ignore", onPodConditions=[disrupted])
