"""One training job of several pods: its facts, and every name that follows from them."""

from dataclasses import dataclass
from typing import Literal

from schemas.contracts.exit_codes import ExitCode
from schemas.spec.cluster import Cluster, Launch, Pod

Component = Literal["dispatcher", "data-worker", "coordinator", "host"]

RUN_LABEL = "sangam.dev/run"
COMPONENT_LABEL = "app.kubernetes.io/component"
DIGEST_ANNOTATION = "sangam.dev/manifests"

DISPATCHER_PORT = 5050
DATA_WORKER_PORT = 5051
COORDINATOR_PORT = 5060

FINAL_CODES = (ExitCode.FAILED, ExitCode.MISTAKE)
"""The coordinator's exit codes after which it is not started again: it has made all retries, or none would help."""

_NAME_CHARACTERS = 40
"""StatefulSets put `<name>-<hash of ten>` into a label, which holds 63; `-data-worker` takes twelve of them."""
_DIGEST_CHARACTERS = 10


def run_name(ranker: str, digest: str) -> str:
    """Returns the name of a run: the same for the same training, so that a retried step finds what it has started."""
    room = _NAME_CHARACTERS - _DIGEST_CHARACTERS - 1
    return f"{ranker.replace('_', '-')[:room].rstrip('-')}-{digest[:_DIGEST_CHARACTERS]}"


@dataclass(frozen=True)
class TrainingRun:
    """What is launched.

    Attributes:
        name: of the run and its job; other objects' names start with it.
        launch: the declared pods.
        cluster: of the training job.
        job_file: on a volume that all pods see.
    """

    name: str
    launch: Launch
    cluster: Cluster
    job_file: str

    @property
    def num_hosts(self) -> int:
        """Pods with ranks."""
        return self.cluster.ranks // self.launch.launcher.ranks_per_host

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
        """Where the tf.data service is; empty without data workers."""
        return f"{self.service('dispatcher')}:{DISPATCHER_PORT}" if self.cluster.data_workers else ""

    @property
    def coordinator(self) -> str:
        """Where the ranks meet."""
        return f"{self.service('coordinator')}:{COORDINATOR_PORT}"

    def declared(self, component: Component) -> Pod:
        """Returns what the spec gives to one kind of pods."""
        launcher = self.launch.launcher
        match component:
            case "host":
                return launcher.host
            case "coordinator":
                return launcher.coordinator
            case "dispatcher" | "data-worker":
                return launcher.data_worker
