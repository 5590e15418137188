"""What the serving check says: every check with its reason, the measured numbers, and whether the model is blessed.

Loads without TensorFlow and TFX: the summary of a run and the model card hold it too.
"""

from pydantic import BaseModel, ConfigDict

from schemas.spec.serving import Load

FILE_NAME = "infra_verdict.json"


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Check(_Record):
    """What one check said, in a sentence."""

    name: str
    passed: bool
    reason: str


class Latency(_Record):
    """Times of requests under the declared load, at the client."""

    p50_ms: float
    p99_ms: float
    requests: int


class ServingVerdict(_Record):
    """Whether a server may be given the model, and why.

    Attributes:
        blessed: every check passed.
        model_bytes: of all files of the exported model.
        load_s: from the start of the server's process until it was ready; None if it never was.
        load: that the latency was measured at.
        once: columns of which a request under load has one row, whatever the number of candidates.
        latency: None if it was not measured.
        checks: in the order in which they were made.
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
