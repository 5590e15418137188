"""Processes of the training job, and on Kubernetes the pods, volumes and retries of each step."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.spec.addresses import HostPort
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

MAX_RETRIES = 10
"""Also the fixed limit of restarts of a killed launcher and, on Kubernetes, of pods and jobs: never below `retries`."""


class InputService(FrozenModel):
    """A standing tf.data service, `sangam input-service`, that a training joins."""

    address: HostPort
    """Of its dispatcher."""
    timeout_s: PositiveInt = 60
    """A training that waits for examples fails when for so long the dispatcher, or every worker, does not answer."""


class Cluster(FrozenModel):
    """Processes and limits of a training job. Nothing here changes what the model means."""

    ranks: PositiveInt = 2
    """Horovod processes."""
    threads_per_rank: PositiveInt = 1
    parameter_servers: PositiveInt | None = None
    """Processes that hold the rows where `training.sync` is not `sync`. Left out: 1 there."""
    data_workers: Annotated[int, Field(ge=0)] = 2
    """tf.data service worker processes; 0: every rank reads its own examples, in a fixed order."""
    input_service: InputService | None = None
    """Left out: the training starts its data workers. Otherwise it starts none, and `data_workers` is how many workers
    can read at the same time: the files are cut accordingly."""
    retries: Annotated[int, Field(ge=0, le=MAX_RETRIES)] = 2
    """Lost processes that a job survives. A data worker is replaced; after the loss of a rank, a host, a parameter
    server, the launcher or the coordinator, training resumes from the last checkpoint."""
    deadline_s: PositiveInt = 6 * 3600
    """Training that takes longer is stopped and fails."""
    heartbeat_timeout_s: PositiveInt = 300
    """A rank without progress for this long counts as hung, and training fails."""

    @property
    def own_data_workers(self) -> int:
        """How many data workers the training starts."""
        return self.data_workers if self.input_service is None else 0


class Gpu(FrozenModel):
    """Accelerators of a pod."""

    count: PositiveInt = 1
    type: ResourceName = "nvidia.com/gpu"
    """Name of the resource in Kubernetes, or of the accelerator on Vertex AI, for example NVIDIA_TESLA_V100."""


class Toleration(FrozenModel):
    """A taint that a pod tolerates, such as that of spot nodes."""

    key: LabelKey
    operator: Literal["Exists", "Equal"] = "Exists"
    value: LabelValue | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None


class SecretKey(FrozenModel):
    """Where a value is in a Secret of the namespace; never the value itself."""

    secret: DnsName
    key: SecretKeyName


class Pod(FrozenModel):
    """Settings of a container and its pod. The namespace's defaults apply to what is left out."""

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
    """Environment variable to the Secret with its value."""
    shared_memory: Size | None = None
    """Size of /dev/shm; 64 MB on Kubernetes if left out. It counts as memory of the pod."""
    image: Image | None = None
    """Left out: the image given to `compile` or `deploy`."""


class Retries(FrozenModel):
    """How often a failed step is retried; the wait grows by `factor` each time."""

    count: Annotated[int, Field(ge=0, le=20)] = 2
    backoff_s: PositiveInt = 60
    factor: Annotated[float, Field(ge=1, le=10)] = 2.0
    max_backoff_s: PositiveInt = 3600


class Step(Pod):
    """A step of the pipeline on Kubeflow. `default` applies to what is left out."""

    retries: Retries = Retries()
    timeout_s: PositiveInt | None = None
    """A pod that runs longer is stopped, and the attempt fails; counted from when a node takes the pod. Left out: 6 h;
    for `trainer` 1 h more than `deadline_s`, for `example_gen` 6 h more than `data.arrival.wait_s`."""
    cache: bool | None = None
    """False: run even if nothing has changed. Left out: the step's own default."""


class Volume(FrozenModel):
    """A PersistentVolumeClaim that every step and every pod of a training job sees at the same path."""

    claim: DnsName
    path: AbsolutePath
    read_only: bool = False


class LocalLauncher(FrozenModel):
    """All processes of the training job in the trainer step's own pod."""

    kind: Literal["local"] = "local"


class _PodsLauncher(FrozenModel):
    """A training job of several pods: a coordinator, hosts with the ranks, parameter servers, the tf.data service."""

    ranks_per_host: PositiveInt = 1
    host: Pod = Pod()
    """The pods with the ranks: memory, GPUs, spot nodes."""
    coordinator: Pod = Pod()
    """Serves the ranks' rendezvous and exports the model: it needs the memory of the export (`sangam plan`)."""
    parameter_server: Pod = Pod()
    """Each parameter server: it needs the memory of its rows (`sangam plan`)."""
    data_worker: Pod = Pod()
    """The tf.data service: the dispatcher and each worker."""
    network_interface: NetworkInterface = "eth0"
    """Interface of the pods for messages between ranks, and between them and parameter servers."""


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
    """The whole section: the training job, and everything on Kubernetes around it. A local run reads only the former.

    A model does not depend on what is not in `Cluster`: changing it trains nothing again on this machine.
    """

    launcher: Launcher = LocalLauncher()
    default: Step = Step()
    """For every step, unless `steps` says otherwise."""
    steps: dict[StepName, Step] = Field(default_factory=dict)
    share_processes: tuple[tuple[StepName, ...], ...] = ()
    """Groups of small steps that run in one pod, one after the other, in one process."""
    volumes: dict[DnsLabel, Volume] = Field(default_factory=dict)
    service_account: DnsName | None = None
    """Of the run's pods; Kubeflow has one per run. Pods of a training job have no token at all."""

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
    """What the trainer step needs to start a training job of several pods; made at compile time."""

    launcher: Annotated[MpiJobLauncher | JobSetLauncher, Field(discriminator="kind")]
    image: Image
    """For pods without an image of their own."""
    volumes: dict[DnsLabel, Volume]
