"""MPIJob (kubeflow.org/v2beta1) as a controller of pods: its Launcher is the coordinator, its Workers are the hosts.

It uses neither MPI nor ssh: both templates have their own commands, so the operator starts no sshd.
"""

from typing import Optional

from lightkube.core.resource import ApiInfo, NamespacedResourceG, ResourceDef
from lightkube.core.schema import DictMixin, dataclass
from lightkube.models.core_v1 import PodTemplateSpec
from lightkube.models.meta_v1 import ObjectMeta, Time

from components.steps.trainer.kubernetes.conditions import JobCondition
from components.steps.trainer.kubernetes.run import TrainingRun
from components.steps.trainer.kubernetes.training_pods import coordinator, host
from schemas.spec.cluster import MAX_RETRIES

# The operator's label of Workers, and the suffix of the batch/v1 Job of the Launcher:
# kubeflow/mpi-operator, pkg/controller/mpi_job_controller.go (newWorker, newLauncherJob).
_INDEX_FIELD = "metadata.labels['training.kubeflow.org/replica-index']"
LAUNCHER_SUFFIX = "-launcher"
_SECONDS_AFTER_FINISHED = 3600

# `Optional`, not `| None`, in what follows: lightkube converts only the former.


@dataclass
class ReplicaSpec(DictMixin):
    """Pods of one role."""

    replicas: int
    restartPolicy: str
    template: PodTemplateSpec


@dataclass
class MpiReplicaSpecs(DictMixin):
    """The two roles."""

    Launcher: ReplicaSpec
    Worker: ReplicaSpec


@dataclass
class RunPolicy(DictMixin):
    """When a job ends, and what remains of it."""

    activeDeadlineSeconds: int
    backoffLimit: int
    cleanPodPolicy: str
    suspend: bool
    ttlSecondsAfterFinished: int


@dataclass
class MpiJobSpec(DictMixin):
    """The spec of an MPIJob."""

    launcherCreationPolicy: str
    mpiReplicaSpecs: MpiReplicaSpecs
    runPolicy: RunPolicy
    slotsPerWorker: int
    sshAuthMountPath: str


@dataclass
class MpiJobStatus(DictMixin):
    """The status of an MPIJob."""

    completionTime: Optional[Time] = None  # noqa: UP045
    conditions: Optional[list[JobCondition]] = None  # noqa: UP045


@dataclass
class MpiJobFields(DictMixin):
    """Fields of the resource."""

    spec: MpiJobSpec
    apiVersion: Optional[str] = None  # noqa: UP045
    kind: Optional[str] = None  # noqa: UP045
    metadata: Optional[ObjectMeta] = None  # noqa: UP045
    status: Optional[MpiJobStatus] = None  # noqa: UP045


class MPIJob(NamespacedResourceG, MpiJobFields):
    """The resource."""

    _api_info = ApiInfo(
        resource=ResourceDef("kubeflow.org", "v2beta1", "MPIJob"),
        plural="mpijobs",
        verbs=["delete", "get", "list", "patch", "post", "watch"],
    )


def mpijob(run: TrainingRun) -> MPIJob:
    """Returns the job, suspended until the objects that its pods need exist."""
    return MPIJob(
        metadata=ObjectMeta(name=run.name, labels=run.selector),
        spec=MpiJobSpec(
            # Coordinator and hosts wait for each other, and a host may wait long for a node.
            launcherCreationPolicy="AtStartup",
            mpiReplicaSpecs=MpiReplicaSpecs(
                # Never: the pod of a failed coordinator stays, with its exit code and log, and a new one is created.
                Launcher=ReplicaSpec(replicas=1, restartPolicy="Never", template=coordinator(run)),
                # OnFailure: the kubelet restarts a host's container, and the operator recreates a deleted pod. An
                # evicted pod prevents that: `lifecycle` deletes it.
                Worker=ReplicaSpec(
                    replicas=run.num_hosts, restartPolicy="OnFailure", template=host(run, index_field=_INDEX_FIELD)
                ),
            ),
            runPolicy=RunPolicy(
                activeDeadlineSeconds=run.cluster.deadline_s,
                # The coordinator enforces cluster.retries; this limit is fixed, and never reached before that one.
                backoffLimit=MAX_RETRIES,
                cleanPodPolicy="All",
                suspend=True,
                ttlSecondsAfterFinished=_SECONDS_AFTER_FINISHED,
            ),
            slotsPerWorker=run.launch.launcher.ranks_per_host,
            # The operator always mounts a key pair: keep it out of the home folder.
            sshAuthMountPath="/etc/unused-ssh",
        ),
    )
