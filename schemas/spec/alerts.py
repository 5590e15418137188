"""The webhook for failed runs, refused models, warnings, decisions on the shadow and days without a push."""

from typing import Annotated, ClassVar, Literal, get_args

from pydantic import Field

from sangam.schemas.parts.base import FrozenModel, PositiveInt
from sangam.schemas.parts.judging import AlertTarget
from sangam.schemas.parts.kinds import AnyKind
from sangam.schemas.spec.kubernetes_names import EnvironmentName

OptionalKind = Literal["failed", "refused", "warning", "promoted", "dropped"]
"""Kinds of alerts that a spec can leave out."""


class Generic(AlertTarget):
    """All fields, signed with HMAC-SHA256."""

    reads_key: ClassVar[bool] = True
    kind: Literal["generic"]


class Slack(AlertTarget):
    """A message for an incoming webhook; the address is its secret."""

    kind: Literal["slack"]


class PagerDuty(AlertTarget):
    """An event of PagerDuty's Events API v2."""

    reads_key: ClassVar[bool] = True
    kind: Literal["pagerduty"]


class Alerts(FrozenModel):
    """A webhook: JSON by HTTP POST. Address and key stay out of the spec.

    On Kubeflow the two variables come from `cluster.default.secrets`.
    """

    format: Annotated[AlertTarget, AnyKind(AlertTarget, word="kind")] = Field(
        Generic(kind="generic"), json_schema_extra={"default": "generic"}
    )
    """Form of the body: `generic`: all fields, signed with HMAC-SHA256; `slack`: a message for an incoming webhook;
    `pagerduty`: an event of PagerDuty's Events API v2. A mapping with `kind` is a form of your own; docs/parts.md."""
    url_env: EnvironmentName = "SANGAM_ALERT_URL"
    """Environment variable with the address of the webhook; of PagerDuty https://events.pagerduty.com/v2/enqueue."""
    key_env: EnvironmentName = "SANGAM_ALERT_KEY"
    """Environment variable with the signing key, of PagerDuty with the integration key; `slack` reads none, a form of
    your own if it says so."""
    on: Annotated[tuple[OptionalKind, ...], Field(min_length=1)] = get_args(OptionalKind)
    """Events that send an alert: failed runs, refused models, warnings on models that no gate refused, versions that
    left the shadow by `sangam promote`."""
    not_pushed_for_days: PositiveInt | None = None
    """Days without a push that send an alert, after a run or by `sangam status ROOT --alert`. Left out: none."""
    ui: Annotated[str, Field(pattern=r"^https?://[^\s]+$")] | None = None
    """Address of `sangam ui` for links to runs, such as https://sangam.example. Left out: paths of pages."""
    timeout_s: PositiveInt = 10
    """Time limit of each of three attempts, in seconds."""

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that are read."""
        return (self.url_env, self.key_env) if self.format.reads_key else (self.url_env,)
