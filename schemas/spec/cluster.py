"""Processes of the training job, and on Kubernetes the pods, volumes and retries of each step."""

from typing import Annotated, Literal

from pydantic import Field

from sangam.schemas.parts.base import FrozenModel, PositiveInt
from sangam.schemas.spec.addresses import HostPort
from sangam.schemas.spec.kubernetes_names import (
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
from sangam.schemas.spec.serving import Size

MAX_RETRIES = 10
"""Largest `retries`; also the fixed number of restarts of a killed launcher and, on Kubernetes, of pods and jobs."""


class InputService(FrozenModel):
    """A standing tf.data service (`sangam input-service`) that a training job joins."""

    address: HostPort
    """Host and port of the service's dispatcher."""
    timeout_s: PositiveInt = 60
    """Seconds without an answer of the dispatcher, or of every worker, after which a waiting training fails."""


class Cluster(FrozenModel):
    """Processes and limits of a training job. They do not change the definition of the model."""

    ranks: PositiveInt = 2
    """Training processes."""
    threads_per_rank: PositiveInt = 1
    """TensorFlow threads of each rank."""
    parameter_servers: PositiveInt | None = None
    """Processes that hold the rows, where `training.sync` is not of kind sync. Left out: 1."""
    data_workers: Annotated[int, Field(ge=0)] = 2
    """Worker processes of the tf.data service; 0: every rank reads its own examples, in a fixed order."""
    input_service: InputService | None = None
    """Standing service that feeds the ranks; the training then starts no data workers, and `data_workers` is the number
    of parts that its files are cut into. Left out: the training starts its data workers."""
    retries: Annotated[int, Field(ge=0, le=MAX_RETRIES)] = 2
    """Number of lost processes that a job survives. A data worker is replaced; after the loss of a rank, a host, a
    parameter server, the launcher or the coordinator, training resumes from the last checkpoint."""
    deadline_s: PositiveInt = 6 * 3600
    """Time limit of a training, in seconds; a longer one is stopped and fails."""
    heartbeat_timeout_s: PositiveInt = 300
    """Seconds without progress of a rank after which it counts as hung, and training fails."""

    @property
    def own_data_workers(self) -> int:
        """Number of data workers that the training starts."""
        return self.data_workers if self.input_service is None else 0


class Gpu(FrozenModel):
    """Accelerators of a pod."""

    count: PositiveInt = 1
    """Number of accelerators."""
    type: ResourceName = "nvidia.com/gpu"
    """Name of the Kubernetes resource, or of the accelerator on Vertex AI, for example NVIDIA_TESLA_V100."""


class Toleration(FrozenModel):
    """A taint that a pod tolerates, such as that of spot nodes."""

    key: LabelKey
    """Key of the taint."""
    operator: Literal["Exists", "Equal"] = "Exists"
    """`Exists`: any value is tolerated. `Equal`: only `value`."""
    value: LabelValue | None = None
    """Tolerated value, with operator Equal."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Tolerated effect of the taint. Left out: every effect."""


class SecretKey(FrozenModel):
    """A reference to a value in a Secret of the namespace; never the value itself."""

    secret: DnsName
    """Name of the Secret."""
    key: SecretKeyName
    """Key of the value in the Secret."""


class Pod(FrozenModel):
    """Settings of a container and its pod. Keys that are left out get the defaults of the namespace."""

    cpu: Cpu | None = None
    """Request and limit of CPU cores: "2", or "500m" for half a core."""
    memory: Size | None = None
    """Request and limit of memory, for example 4GiB."""
    gpu: Gpu | None = None
    """Accelerators of the pod. Left out: none."""
    node_pool: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    """Labels that the pod's node must have."""
    tolerations: tuple[Toleration, ...] = ()
    """Taints that the pod tolerates."""
    env: dict[EnvironmentName, str] = Field(default_factory=dict)
    """Environment variables and their values; no secrets."""
    secrets: dict[EnvironmentName, SecretKey] = Field(default_factory=dict)
    """Environment variables whose values are in Secrets."""
    shared_memory: Size | None = None
    """Size of /dev/shm, which counts as memory of the pod. Left out: 64 MB."""
    image: Image | None = None
    """Container image. Left out: the image given to `sangam compile` or `sangam deploy`."""


class Retries(FrozenModel):
    """Retries of a failed step, with growing waits."""

    count: Annotated[int, Field(ge=0, le=20)] = 2
    """Number of retries."""
    backoff_s: PositiveInt = 60
    """Wait before the first retry, in seconds."""
    factor: Annotated[float, Field(ge=1, le=10)] = 2.0
    """Growth of the wait from one retry to the next."""
    max_backoff_s: PositiveInt = 3600
    """Longest wait, in seconds."""


class Step(Pod):
    """Settings of a pipeline step on Kubeflow. In `steps`, keys that are left out are those of `default`."""

    retries: Retries = Retries()
    """Retries of the step when it fails."""
    timeout_s: PositiveInt | None = None
    """Time limit of an attempt, in seconds, from the start of its pod on a node. Left out: 6 h; for `trainer` 1 h more
    than `deadline_s`, for `example_gen` 6 h more than `data.arrival.wait_s`."""
    cache: bool | None = None
    """Whether an unchanged step takes its outputs from the cache. Left out: the step's own default."""


class Volume(FrozenModel):
    """A PersistentVolumeClaim that every step and every pod of a training job sees at the same path."""

    claim: DnsName
    """Name of the PersistentVolumeClaim."""
    path: AbsolutePath
    """Path of the volume in every pod."""
    read_only: bool = False
    """Whether pods can only read the volume."""


class LocalLauncher(FrozenModel):
    """All processes of the training job in the trainer step's own pod."""

    kind: Literal["local"] = "local"


class _PodsLauncher(FrozenModel):
    """A training job of several pods: a coordinator, hosts with the ranks, parameter servers, the tf.data service."""

    ranks_per_host: PositiveInt = 1
    """Ranks in each host pod; a divisor of `ranks`."""
    host: Pod = Pod()
    """Pods of the ranks: memory, GPUs, spot nodes."""
    coordinator: Pod = Pod()
    """Pod of the rendezvous, which also exports the model and needs memory for that (`sangam plan`)."""
    parameter_server: Pod = Pod()
    """Pod of each parameter server, which needs memory for its rows (`sangam plan`)."""
    data_worker: Pod = Pod()
    """Pods of the tf.data service: its dispatcher and each worker."""
    network_interface: NetworkInterface = "eth0"
    """Network interface of the pods for messages between ranks and parameter servers."""


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
    "reporter",
]


class SpecCluster(Cluster):
    """The training job, and the pods, volumes and retries of each step on Kubernetes.

    `launcher` and the keys below it are for Kubernetes; a local run ignores them, also when they change.
    """

    launcher: Launcher = LocalLauncher()
    """Placement of the training job on Kubernetes: in the trainer step's pod, or in pods of its own."""
    default: Step = Step()
    """Settings of every step; those in `steps` take precedence."""
    steps: dict[StepName, Step] = Field(default_factory=dict)
    """Settings of single steps, by the name of the step."""
    queue: DnsLabel | None = None
    """LocalQueue of Kueue, in the namespace of the runs, in which a training job of several pods waits for its quota.
    Left out: it starts at once."""
    share_processes: Literal["auto"] | tuple[tuple[StepName, ...], ...] = "auto"
    """Groups of small consecutive steps; each group runs in one process of one pod. `auto`: all such steps before the
    trainer, and all after it, split where their settings or engines differ. An empty list: a pod for each step."""
    volumes: dict[DnsLabel, Volume] = Field(default_factory=dict)
    """Volumes of all pods, by name."""
    service_account: DnsName | None = None
    """Service account of the run's pods; Kubeflow has one per run. Pods of a training job have no token."""

    def job(self) -> Cluster:
        """Returns the part that the training job depends on."""
        return Cluster(**{name: getattr(self, name) for name in Cluster.model_fields})

    def step(self, name: StepName) -> Step:
        """Returns the settings of a step: its own, over `default`."""
        own = self.steps.get(name)
        if own is None:
            return self.default
        return self.default.model_copy(update={key: getattr(own, key) for key in own.model_fields_set})


class Launch(FrozenModel):
    """Settings with which the trainer step starts a training job of several pods; written at compile time."""

    launcher: Annotated[MpiJobLauncher | JobSetLauncher, Field(discriminator="kind")]
    image: Image
    """Image of pods without one of their own."""
    volumes: dict[DnsLabel, Volume]
    queue: DnsLabel | None = None
    """LocalQueue in which the job waits."""
