"""Endpoints from which Prometheus reads the progress of a training."""

from typing import Annotated

from pydantic import Field

from sangam.schemas.parts.base import FrozenModel

Port = Annotated[int, Field(ge=0, le=65535)]


class Monitoring(FrozenModel):
    """Endpoints for Prometheus of the ranks, the parameter servers and the data workers.

    They listen on loopback on one machine, and on the pod's address on Kubernetes; docs/monitoring.md has the metrics.
    """

    port: Port = 0
    """Port of the first process; the others take the ports after it. 0: any free ports, and 9464 in pods."""
