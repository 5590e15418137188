"""Contradictions between the sections `monitoring` and `cluster`."""

from collections.abc import Iterator

from sangam.schemas.contracts.monitoring import POD_PORT
from sangam.schemas.problems import Problem
from sangam.schemas.spec import Spec
from sangam.schemas.spec.cluster import LocalLauncher

_LAST_PORT = 65535
_POD_PORTS = range(5050, 5061)
"""Ports of the dispatcher, data workers and coordinator, as in components/steps/trainer/kubernetes/run.py."""


def monitoring_problems(spec: Spec) -> Iterator[Problem]:
    """Yields every mistake of the section."""
    if spec.monitoring is None:
        return
    port, cluster = spec.monitoring.port, spec.cluster
    if port:
        # One machine has the ranks, the dispatcher, the data workers and the parameter servers.
        last = port + cluster.ranks + cluster.own_data_workers + spec.num_parameter_servers
        if last > _LAST_PORT:
            yield Problem(
                ("monitoring", "port"),
                f"leaves no port for the last process (got {port} for {last - port + 1} processes)",
                f"at most {port - (last - _LAST_PORT)}, or 0 for any free ports",
            )
    if not isinstance(cluster.launcher, LocalLauncher):
        first = port or POD_PORT
        ports = range(first, first + cluster.launcher.ranks_per_host)
        if set(ports) & set(_POD_PORTS):
            yield Problem(
                ("monitoring", "port"),
                f"is a port that the training uses in its pods (got {ports[0]} to {ports[-1]})",
                f"a port outside {_POD_PORTS[0]} to {_POD_PORTS[-1]}, or 0 for {POD_PORT}",
            )
