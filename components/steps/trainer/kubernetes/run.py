"""One training job in pods: its parameters, and all names derived from them."""

from dataclasses import dataclass
from typing import Literal

from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.spec.cluster import Cluster, Launch, Pod

Component = Literal["dispatcher", "data-worker", "coordinator", "host", "parameter-server"]

RUN_LABEL = "sangam.dev/run"
COMPONENT_LABEL = "app.kubernetes.io/component"
INPUT_SERVICE_LABEL = "sangam.dev/input-service"
"""Label of the pods of a standing tf.data service, which a training may join: it may connect to no other pods."""
RANKER_ANNOTATION = "sangam.dev/ranker"
CLIENT_LABEL = "sangam.dev/client"
"""Label of pods that may send requests to servers and read metrics, such as Prometheus."""
DIGEST_ANNOTATION = "sangam.dev/manifests"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
"""Kueue's label of a job that waits in a LocalQueue."""

DISPATCHER_PORT = 5050
DATA_WORKER_PORT = 5051
COORDINATOR_PORT = 5060

FINAL_CODES = (ExitCode.FAILED, ExitCode.MISTAKE)
"""Exit codes after which the coordinator is not restarted: it has used all retries, or a retry would fail again."""

_NAME_CHARACTERS = 35
"""Maximum length of a name: StatefulSets put `<name>-<hash of ten>` into a label of at most 63 characters, and
`-parameter-server` takes 17."""
_DIGEST_CHARACTERS = 10


def run_name(ranker: str, digest: str) -> str:
    """Returns the name of a run: the same for the same training, so that a retried step finds its job."""
    room = _NAME_CHARACTERS - _DIGEST_CHARACTERS - 1
    return f"{ranker.replace('_', '-')[:room].rstrip('-')}-{digest[:_DIGEST_CHARACTERS]}"


@dataclass(frozen=True)
class TrainingRun:
    """A training job.

    Attributes:
        name: name of the run and its job, and prefix of the other objects' names.
        launch: pods and volumes of the spec.
        cluster: `cluster` section of the spec.
        job_file: job file on a volume of all pods.
        servers: number of parameter servers.
        ranker: name in the spec.
        metrics_port: metrics port of the first process of each pod that serves metrics; None without metrics.
    """

    name: str
    launch: Launch
    cluster: Cluster
    job_file: str
    servers: int = 0
    ranker: str = ""
    metrics_port: int | None = None

    @property
    def num_hosts(self) -> int:
        """Number of pods with ranks."""
        return self.cluster.ranks // self.launch.launcher.ranks_per_host

    @property
    def pods(self) -> dict[Component, int]:
        """Number of pods of each kind in a complete job."""
        workers = self.cluster.own_data_workers
        pool: dict[Component, int] = {"dispatcher": 1, "data-worker": workers} if workers else {}
        servers: dict[Component, int] = {"parameter-server": self.servers} if self.servers else {}
        return {"coordinator": 1, "host": self.num_hosts, **servers, **pool}

    def metrics_ports(self, component: Component) -> tuple[int, ...]:
        """Returns the ports at which the processes of one of these pods serve metrics."""
        if self.metrics_port is None or component == "coordinator":
            return ()
        processes = self.launch.launcher.ranks_per_host if component == "host" else 1
        return tuple(range(self.metrics_port, self.metrics_port + processes))

    @property
    def selector(self) -> dict[str, str]:
        """Labels of every object and pod of this run, and of no other."""
        return {"app.kubernetes.io/name": "sangam", RUN_LABEL: self.name}

    def labels(self, component: Component) -> dict[str, str]:
        """Returns the labels of one kind of pods."""
        return {**self.selector, COMPONENT_LABEL: component}

    def service(self, component: Component) -> str:
        """Returns the name of the Service (and StatefulSet) of one kind of pods: resolved within the namespace."""
        return f"{self.name}-{component}"

    @property
    def dispatcher(self) -> str:
        """Address of the tf.data service, its own or one that it joins; empty without data workers."""
        if self.cluster.input_service is not None:
            return self.cluster.input_service.address
        return f"{self.service('dispatcher')}:{DISPATCHER_PORT}" if self.cluster.data_workers else ""

    @property
    def coordinator(self) -> str:
        """Address of the coordinator."""
        return f"{self.service('coordinator')}:{COORDINATOR_PORT}"

    def pod_spec(self, component: Component) -> Pod:
        """Returns the spec of one kind of pods."""
        launcher = self.launch.launcher
        match component:
            case "host":
                return launcher.host
            case "coordinator":
                return launcher.coordinator
            case "parameter-server":
                return launcher.parameter_server
            case "dispatcher" | "data-worker":
                return launcher.data_worker
