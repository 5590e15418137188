"""Mistakes in the section `monitoring` that only show beside the section `cluster`."""

from collections.abc import Iterator

from schemas.contracts.monitoring import POD_PORT
from schemas.problems import Problem
from schemas.spec import Spec
from schemas.spec.cluster import LocalLauncher

_LAST_PORT = 65535
_POD_PORTS = range(5050, 5061)
"""Of the dispatcher, of data workers and of the coordinator, see components/steps/trainer/kubernetes/run.py."""


def monitoring_problems(spec: Spec) -> Iterator[Problem]:
    """Yields every mistake of the section."""
    if spec.monitoring is None:
        return
    port, cluster = spec.monitoring.port, spec.cluster
    if port:
        # On one machine: the ranks, the pool's dispatcher and workers, the parameter servers.
        last = port + cluster.ranks + cluster.own_data_workers + spec.num_parameter_servers
        if last > _LAST_PORT:
            yield Problem(
                ("monitoring", "port"),
                f"leaves no port for the last process (got {port} for {last - port + 1} processes)",
                f"at most {port - (last - _LAST_PORT)}, or 0: any free ones",
            )
    if not isinstance(cluster.launcher, LocalLauncher):
        first = port or POD_PORT
        ports = range(first, first + cluster.launcher.ranks_per_host)
        if set(ports) & set(_POD_PORTS):
            yield Problem(
                ("monitoring", "port"),
                f"is a port of the training's own in its pods (got {ports[0]} to {ports[-1]})",
                f"others than {_POD_PORTS[0]} to {_POD_PORTS[-1]}; 0: {POD_PORT}",
            )
