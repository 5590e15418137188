"""Settings of processes that serve metrics, and the files (file_sd) by which Prometheus finds them."""

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sangam.schemas.host.files import write_whole
from sangam.schemas.parts.base import FrozenModel
from sangam.schemas.spec.cluster import Cluster
from sangam.schemas.spec.monitoring import Monitoring, Port

POD_PORT = 9464
"""Default port in pods, at which OpenTelemetry's SDKs serve Prometheus by default."""
LOOPBACK, EVERYWHERE = "127.0.0.1", "0.0.0.0"
PLACE = "monitoring.port"
"""The spec's path in errors."""
_VARIABLE = "SANGAM_MONITORING"

Job = Literal["sangam-trainer", "sangam-online", "sangam-server", "sangam-input"]
"""Names of the kinds of targets in Prometheus."""


class Monitored(FrozenModel):
    """The section `monitoring` for a training job.

    Attributes:
        host: address to listen on.
        port: port of the first process; 0: any free port for each.
        targets: folder of the files by which Prometheus finds the processes; empty: it asks Kubernetes for the pods.
        job: job in the labels of these files.
    """

    host: str
    port: Port
    targets: str
    job: Job = "sangam-trainer"

    def rank_port(self, local_rank: int) -> int:
        """Returns the port of a rank, from its number on its machine."""
        return self.port and self.port + local_rank

    def pool_port(self, cluster: Cluster, number: int) -> int:
        """Returns the port of a process of a one-machine pool, which follows the ranks: 0 is the dispatcher."""
        return self.port and self.port + cluster.ranks + number

    def server_port(self, cluster: Cluster, number: int) -> int:
        """Returns the port of a parameter server: behind the pool, or in a pod of its own."""
        return self.pool_port(cluster, cluster.own_data_workers + 1 + number) if self.targets else self.port

    def ports(self, cluster: Cluster, servers: int) -> tuple[int, ...]:
        """Returns all fixed ports of a training on one machine.

        Args:
            cluster: cluster of the spec.
            servers: number of parameter servers.
        """
        if not self.port:
            return ()
        pool = cluster.own_data_workers + 1 if cluster.own_data_workers else 0
        return (
            *(self.rank_port(rank) for rank in range(cluster.ranks)),
            *(self.pool_port(cluster, number) for number in range(pool)),
            *(self.server_port(cluster, number) for number in range(servers)),
        )

    def target(self, ranker: str, process: str) -> "Target | None":
        """Returns the file by which Prometheus finds a process; None on Kubernetes."""
        return Target.of(Path(self.targets), self.job, ranker, process) if self.targets else None


def on_this_machine(monitoring: Monitoring | None, targets: Path, job: Job) -> Monitored | None:
    """Returns the settings of a training on this machine; None for a spec without the section."""
    if monitoring is None:
        return None
    return Monitored(host=LOOPBACK, port=monitoring.port, targets=str(targets), job=job)


def in_pods(monitoring: Monitoring | None) -> Monitored | None:
    """Returns the settings of a training in pods; None for a spec without the section."""
    if monitoring is None:
        return None
    return Monitored(host=EVERYWHERE, port=monitoring.port or POD_PORT, targets="")


def variables(monitoring: Monitoring | None) -> dict[str, str]:
    """Returns the environment of a step that trains. A parameter of the step would make it run again."""
    return {} if monitoring is None else {_VARIABLE: monitoring.model_dump_json()}


def replace_variables(monitoring: Monitoring | None) -> None:
    """Sets this process's own environment to `variables`."""
    os.environ.pop(_VARIABLE, None)
    os.environ.update(variables(monitoring))


def from_variables(environ: Mapping[str, str]) -> Monitoring | None:
    """Returns the argument of `variables`."""
    told = environ.get(_VARIABLE)
    return Monitoring.model_validate_json(told) if told else None


@dataclass(frozen=True)
class Target:
    """One target of Prometheus, in a file of its own.

    Attributes:
        file: JSON as its file_sd reads it.
        labels: of everything that is read there; values are names of the spec and numbers of processes.
    """

    file: Path
    labels: Mapping[str, str]

    @classmethod
    def of(cls, folder: Path, job: Job, ranker: str, process: str) -> "Target":
        """Returns the target of a training's process.

        Its name is its instance too: an address with a port of the kernel's choice would be a new one in each run.
        """
        labels = {"job": job, "ranker": ranker, "process": process, "instance": f"{ranker} {process}"}
        return cls(folder / f"{_prefix(job, ranker)}{process}.json", labels)

    @property
    def labels_json(self) -> str:
        """The labels, as a command line takes them."""
        return json.dumps(dict(self.labels))

    def announce(self, address: str) -> None:
        """Announces the address, host:port, to Prometheus."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.file, json.dumps([{"targets": [address], "labels": dict(self.labels)}]) + "\n")

    def withdraw(self) -> None:
        """Removes the address from Prometheus."""
        with contextlib.suppress(OSError):
            self.file.unlink(missing_ok=True)


def withdraw_all(folder: Path, job: Job, ranker: str) -> None:
    """Removes the files of a ranker's processes, also of those that were killed."""
    for file in folder.glob(f"{_prefix(job, ranker)}*.json"):
        with contextlib.suppress(OSError):
            file.unlink(missing_ok=True)


def _prefix(job: Job, ranker: str) -> str:
    # A ranker's name has no dot: no prefix is another's.
    return f"{job}.{ranker}."
