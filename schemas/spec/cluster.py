"""What a run is given: processes of the training job, and on Kubernetes the pods, volumes and retries of each step."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.spec.base import FrozenModel, PositiveInt
from schemas.spec.kubernetes_names import (
    AbsolutePath,
    Cpu,
    DnsLabel,
    DnsName,
    EnvironmentName,
    Image,
    LabelKey,
    LabelValue,
    NetworkInterface,
    ResourceName,
    SecretKeyName,
)
from schemas.spec.serving import Size


class Cluster(FrozenModel):
    """What one training job is given. Nothing here changes what the model means."""

    ranks: PositiveInt = 2
    """Horovod processes."""
    threads_per_rank: PositiveInt = 1
    data_workers: Annotated[int, Field(ge=0)] = 2
    """tf.data service worker processes; 0: every rank reads by itself, in a fixed order."""
    retries: Annotated[int, Field(ge=0)] = 2
    """How many lost processes of a job are made good: a data worker by another, a rank by starting all ranks again."""
    deadline_s: PositiveInt = 6 * 3600
    """Training that has not ended by then is stopped and fails."""
    heartbeat_timeout_s: PositiveInt = 300
    """A rank that has made no progress for so long is taken for hung, and training fails."""


class Gpu(FrozenModel):
    """Accelerators of a pod."""

    count: PositiveInt = 1
    type: ResourceName = "nvidia.com/gpu"
    """The resource's name in Kubernetes; on Vertex AI the accelerator's, for example NVIDIA_TESLA_V100."""


class Toleration(FrozenModel):
    """A taint of nodes that a pod may run on nevertheless, as spot nodes have one."""

    key: LabelKey
    operator: Literal["Exists", "Equal"] = "Exists"
    value: LabelValue | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None


class SecretKey(FrozenModel):
    """A value that lies in a Secret of the namespace; never the value itself."""

    secret: DnsName
    key: SecretKeyName


class Pod(FrozenModel):
    """What a container and its pod are given. What is left out is left to the namespace's defaults."""

    cpu: Cpu | None = None
    """Cores, for example "2" or "500m": request and limit."""
    memory: Size | None = None
    """Request and limit."""
    gpu: Gpu | None = None
    node_pool: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    """Labels that a node must have."""
    tolerations: tuple[Toleration, ...] = ()
    env: dict[EnvironmentName, str] = Field(default_factory=dict)
    secrets: dict[EnvironmentName, SecretKey] = Field(default_factory=dict)
    """Environment variable to the Secret that it is read from."""
    shared_memory: Size | None = None
    """Of /dev/shm; Kubernetes gives 64 MB where nothing is declared. It counts as memory of the pod."""
    image: Image | None = None
    """Left out: the image given to `compile` or `deploy`."""


class Retries(FrozenModel):
    """How often a failed step is tried again; the wait grows by `factor` every time."""

    count: Annotated[int, Field(ge=0, le=20)] = 2
    backoff_s: PositiveInt = 60
    factor: Annotated[float, Field(ge=1, le=10)] = 2.0
    max_backoff_s: PositiveInt = 3600


class Step(Pod):
    """A step of the pipeline on Kubeflow. What is left out is that of `default`."""

    retries: Retries = Retries()
    timeout_s: PositiveInt | None = None
    """The pod is ended after so long, and the try has failed."""
    cache: bool | None = None
    """False: run even if nothing has changed. Left out: as the step is made."""


class Volume(FrozenModel):
    """A PersistentVolumeClaim that every step and every pod of a training job sees at the same path."""

    claim: DnsName
    path: AbsolutePath
    read_only: bool = False


class LocalLauncher(FrozenModel):
    """All processes of the training job in the trainer step's own pod."""

    kind: Literal["local"] = "local"


class _PodsLauncher(FrozenModel):
    """A training job of several pods: a coordinator, hosts with the ranks, and the tf.data service."""

    ranks_per_host: PositiveInt = 1
    host: Pod = Pod()
    """The pods with the ranks: memory, GPUs, spot nodes."""
    coordinator: Pod = Pod()
    """Holds the ranks' meeting point, and exports the model: it needs the memory of the export (`sangam plan`)."""
    data_worker: Pod = Pod()
    """The tf.data service: the dispatcher and each worker."""
    network_interface: NetworkInterface = "eth0"
    """Of the pods, for the ranks' messages."""


class MpiJobLauncher(_PodsLauncher):
    """The Kubeflow MPI operator, kubeflow.org/v2beta1."""

    kind: Literal["mpijob"]


class JobSetLauncher(_PodsLauncher):
    """The JobSet API, jobset.x-k8s.io/v1alpha2."""

    kind: Literal["jobset"]


PodsLauncher = MpiJobLauncher | JobSetLauncher
Launcher = Annotated[LocalLauncher | MpiJobLauncher | JobSetLauncher, Field(discriminator="kind")]

StepName = Literal[
    "example_gen",
    "schema_gen",
    "statistics_gen",
    "example_validator",
    "transform",
    "trainer",
    "evaluator",
    "infra_validator",
    "pusher",
]


class SpecCluster(Cluster):
    """The whole section: the training job, and everything on Kubernetes around it. A local run reads only the former.

    What is not in `Cluster` is no part of what a model depends on: changing it trains nothing again on this machine.
    """

    launcher: Launcher = LocalLauncher()
    default: Step = Step()
    """Of every step that declares nothing else."""
    steps: dict[StepName, Step] = Field(default_factory=dict)
    volumes: dict[DnsLabel, Volume] = Field(default_factory=dict)
    service_account: DnsName | None = None
    """Of the run's pods; Kubeflow knows one a run. Pods of a training job have no token at all."""

    def job(self) -> Cluster:
        """Returns the part that the training job depends on."""
        return Cluster(**{name: getattr(self, name) for name in Cluster.model_fields})

    def step(self, name: StepName) -> Step:
        """Returns what a step is given: what it declares, over `default`."""
        declared = self.steps.get(name)
        if declared is None:
            return self.default
        return self.default.model_copy(update={key: getattr(declared, key) for key in declared.model_fields_set})


class Launch(FrozenModel):
    """All that the trainer step needs to know to start a training job of several pods: made at compile time."""

    launcher: Annotated[MpiJobLauncher | JobSetLauncher, Field(discriminator="kind")]
    image: Image
    """Of the pods that declare none of their own."""
    volumes: dict[DnsLabel, Volume]
