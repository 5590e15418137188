"""Where Prometheus reads what a training does."""

from typing import Annotated

from pydantic import Field

from schemas.spec.base import FrozenModel

Port = Annotated[int, Field(ge=0, le=65535)]


class Monitoring(FrozenModel):
    """Endpoints for Prometheus of the ranks, of the parameter servers and of the pool that feeds them.

    They listen where these processes listen: on loopback on this machine, on the pod's address in pods. Changes no
    result, so it is no part of the digest. docs/monitoring.md says what they tell, and how Prometheus finds them.
    """

    port: Port = 0
    """Of the first process; the others take the ports after it. 0: any free ones, and in pods 9464."""
