"""The verdict of the serving gate: every check with its reason, and the measured numbers.

Loads without TensorFlow and TFX: the record of a run and the model card contain it, too.
"""

from pydantic import BaseModel, ConfigDict

from sangam.components.reports.skew import FeatureSkew, ScoreSkew
from sangam.schemas.spec.serving import Load

FILE_NAME = "infra_verdict.json"


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Check(_Record):
    """The result of one check, with its reason in a sentence."""

    name: str
    passed: bool
    reason: str


class ServingVerdict(_Record):
    """Whether the model may be served, and why.

    Attributes:
        blessed: every check passed.
        model_bytes: size of all files of the exported model.
        load_s: seconds from the start of the server process until it was ready; None if it never was.
        load: load during the measurement of the latency.
        once: columns of which a request has one row for all candidates.
        p50_ms: latency under `load`, measured at the client; None if it was not measured.
        p99_ms: the same for the 99th percentile.
        requests: number of measured requests.
        candidates_per_core_s: candidates that one core of a server answers in a second; None if the spec asks for no
            price of serving.
        live_candidates_per_core_s: the same of the version that the model would replace; None if it was not measured.
        live: that version.
        feature_skew: how features of logged requests differ from the logs; None if the spec has no gate for it.
        score_skew: how scores of logged requests differ from those given again; likewise.
        checks: checks in order.
        notes: omitted checks with their reasons.
    """

    blessed: bool
    model_bytes: int
    load_s: float | None = None
    load: Load
    once: list[str] = []
    p50_ms: float | None = None
    p99_ms: float | None = None
    requests: int = 0
    candidates_per_core_s: float | None = None
    live_candidates_per_core_s: float | None = None
    live: str = ""
    feature_skew: FeatureSkew | None = None
    score_skew: ScoreSkew | None = None
    checks: list[Check]
    notes: list[str] = []
