"""The verdict of the serving gate: every check with its reason, and the measured numbers.

Loads without TensorFlow and TFX: the summary of a run and the model card contain it too.
"""

from pydantic import BaseModel, ConfigDict

from schemas.spec.serving import Load

FILE_NAME = "infra_verdict.json"


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Check(_Record):
    """The result of one check, with its reason in a sentence."""

    name: str
    passed: bool
    reason: str


class Latency(_Record):
    """Latency under `serving.load`, measured at the client."""

    p50_ms: float
    p99_ms: float
    requests: int


class ServingVerdict(_Record):
    """Whether the model may be served, and why.

    Attributes:
        blessed: every check passed.
        model_bytes: size of all files of the exported model.
        load_s: from the start of the server process until it was ready; None if it never was.
        load: under which the latency was measured.
        once: columns of which a request has one row for all candidates.
        latency: None if it was not measured.
        checks: in order.
        notes: what was not judged, and why.
    """

    blessed: bool
    model_bytes: int
    load_s: float | None = None
    load: Load
    once: list[str] = []
    latency: Latency | None = None
    checks: list[Check]
    notes: list[str] = []
