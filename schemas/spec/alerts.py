"""The webhook for failed runs and refused models."""

from typing import Annotated, Literal

from pydantic import Field

from sangam.schemas.spec.base import FrozenModel, PositiveInt
from sangam.schemas.spec.kubernetes_names import EnvironmentName


class Alerts(FrozenModel):
    """A webhook: JSON by HTTP POST, signed with HMAC-SHA256. Address and key stay out of the spec.

    On Kubeflow the two variables come from `cluster.default.secrets`.
    """

    url_env: EnvironmentName = "SANGAM_ALERT_URL"
    """Environment variable with the address of the webhook."""
    key_env: EnvironmentName = "SANGAM_ALERT_KEY"
    """Environment variable with the signing key."""
    on: Annotated[tuple[Literal["failed", "refused"], ...], Field(min_length=1)] = ("failed", "refused")
    """Events that send an alert: failed runs, refused models."""
    timeout_s: PositiveInt = 10
    """Time limit of each of three attempts, in seconds."""
