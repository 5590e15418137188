"""MPIJob (kubeflow.org/v2beta1) as a controller of pods: its Launcher is the coordinator, its Workers are the hosts.

It uses neither MPI nor ssh: both templates have their own commands, so the operator starts no sshd.
"""

from typing import Any, ClassVar, Optional, Self

from lightkube.core.resource import ApiInfo, ResourceDef
from lightkube.core.schema import DictMixin, dataclass
from lightkube.models.core_v1 import PodTemplateSpec
from lightkube.models.meta_v1 import ObjectMeta

from sangam.components.steps.trainer.kubernetes.envelope import SECONDS_AFTER_FINISHED, TrainingJob
from sangam.components.steps.trainer.kubernetes.run import TrainingRun
from sangam.components.steps.trainer.kubernetes.training_pods import TrainingPods
from sangam.schemas.spec.cluster import MAX_RETRIES


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
    """The end of a job, and its cleanup by Kubernetes."""

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
class MPIJob(TrainingJob):
    """The resource. Names and states are those of the operator (kubeflow/mpi-operator, pkg/controller).

    `newLauncherJob` creates the Launcher's Job, which the MPIJob owns; `newWorker` sets a Worker's index; a Worker is
    recreated only if there is no pod of its name, failed or not (`getOrCreateWorker`). Evicted Workers make the job
    "Failed" for a while, without a completion time.
    """

    spec: Optional[MpiJobSpec] = None  # noqa: UP045

    _api_info = ApiInfo(
        resource=ResourceDef("kubeflow.org", "v2beta1", "MPIJob"),
        plural="mpijobs",
        verbs=["delete", "get", "list", "patch", "post", "watch"],
    )
    index_field = "metadata.labels['training.kubeflow.org/replica-index']"
    coordinator_suffix = "-launcher"
    done = "Succeeded"
    has_completion_time = True
    resumed: ClassVar[dict[str, Any]] = {"runPolicy": {"suspend": False}}
    is_removed = False
    replaces_failed_hosts = False

    @property
    def is_suspended(self) -> bool:
        return self.spec is not None and self.spec.runPolicy.suspend

    @classmethod
    def around(cls, run: TrainingRun, pods: TrainingPods) -> Self:
        """Returns the job of a run."""
        return cls(
            metadata=ObjectMeta(name=run.name, labels=run.selector),
            spec=MpiJobSpec(
                # Coordinator and hosts wait for each other, and a host may wait long for a node.
                launcherCreationPolicy="AtStartup",
                mpiReplicaSpecs=MpiReplicaSpecs(
                    # Never: a failed coordinator's pod is kept, with exit code and log, and a new one is created.
                    Launcher=ReplicaSpec(replicas=1, restartPolicy="Never", template=pods.coordinator),
                    # OnFailure: the kubelet restarts a host's container, and the operator recreates a deleted pod. An
                    # evicted pod prevents that: `lifecycle` deletes it.
                    Worker=ReplicaSpec(replicas=run.num_hosts, restartPolicy="OnFailure", template=pods.host),
                ),
                runPolicy=RunPolicy(
                    activeDeadlineSeconds=run.cluster.deadline_s,
                    # The coordinator enforces cluster.retries; this limit is fixed, and higher.
                    backoffLimit=MAX_RETRIES,
                    cleanPodPolicy="All",
                    suspend=True,
                    ttlSecondsAfterFinished=SECONDS_AFTER_FINISHED,
                ),
                slotsPerWorker=run.launch.launcher.ranks_per_host,
                # The operator always mounts a key pair: keep it out of the home folder.
                sshAuthMountPath="/etc/unused-ssh",
            ),
        )
