"""MPIJob (kubeflow.org/v2beta1) as a holder of pods: its Launcher is the coordinator, its Workers are the hosts.

Nothing here uses MPI or ssh: both templates bring commands of their own, so the operator starts no sshd.
"""

from typing import Optional

from lightkube.core.resource import ApiInfo, NamespacedResourceG, ResourceDef
from lightkube.core.schema import DictMixin, dataclass
from lightkube.models.core_v1 import PodTemplateSpec
from lightkube.models.meta_v1 import ObjectMeta, Time

from components.steps.trainer.kubernetes.run import TrainingRun
from components.steps.trainer.kubernetes.training_pods import coordinator, host

# What the operator writes on its Workers, and appends to the job's name for the batch/v1 Job of the Launcher:
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
    """How a job ends."""

    activeDeadlineSeconds: int
    backoffLimit: int
    cleanPodPolicy: str
    suspend: bool
    ttlSecondsAfterFinished: int


@dataclass
class MpiJobSpec(DictMixin):
    """What is wanted."""

    launcherCreationPolicy: str
    mpiReplicaSpecs: MpiReplicaSpecs
    runPolicy: RunPolicy
    slotsPerWorker: int
    sshAuthMountPath: str


@dataclass
class JobCondition(DictMixin):
    """One thing that is or is not so; also of a JobSet."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


@dataclass
class MpiJobStatus(DictMixin):
    """What is."""

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
    """Returns the job, suspended: its pods may start once what they need is there."""
    return MPIJob(
        metadata=ObjectMeta(name=run.name, labels=run.selector),
        spec=MpiJobSpec(
            # Coordinator and hosts wait for each other by themselves, and a host may be slow to get its node.
            launcherCreationPolicy="AtStartup",
            mpiReplicaSpecs=MpiReplicaSpecs(
                # Never: a coordinator that has fallen leaves its pod, with its exit code and log, and gets a new one.
                Launcher=ReplicaSpec(replicas=1, restartPolicy="Never", template=coordinator(run)),
                # OnFailure: the kubelet starts a host's container again; a pod that is deleted is made anew. One that
                # was evicted stays in the new one's way: `lifecycle` deletes it.
                Worker=ReplicaSpec(
                    replicas=run.num_hosts, restartPolicy="OnFailure", template=host(run, index_field=_INDEX_FIELD)
                ),
            ),
            runPolicy=RunPolicy(
                activeDeadlineSeconds=run.cluster.deadline_s,
                backoffLimit=run.cluster.retries,
                cleanPodPolicy="All",
                suspend=True,
                ttlSecondsAfterFinished=_SECONDS_AFTER_FINISHED,
            ),
            slotsPerWorker=run.launch.launcher.ranks_per_host,
            # The operator mounts a key pair in any case; not into a home folder.
            sshAuthMountPath="/etc/unused-ssh",
        ),
    )
