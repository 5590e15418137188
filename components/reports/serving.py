"""What the serving check says: every check with its reason, the measured numbers, and whether the model is blessed.

Loads without TensorFlow and TFX: the summary of a run and the model card hold it too.
"""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from schemas.quantities import shown_bytes
from schemas.spec.serving import Load, Serving

FILE_NAME = "infra_verdict.json"
MEASUREMENTS = 3
"""Of the latency, until one holds: other work on the machine makes a model slower, never faster."""


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


def size_check(model_bytes: int, serving: Serving) -> Check | None:
    """Returns the verdict on the model's size; None without a bound."""
    bound = serving.max_model_bytes
    if bound is None:
        return None
    passed = model_bytes <= bound
    relation = "is at most" if passed else "is above"
    shown, shown_bound = _sizes(model_bytes, bound)
    return Check(
        name="size", passed=passed, reason=f"the model's {shown} {relation} serving.max_model_size {shown_bound}"
    )


def _sizes(size: int, bound: int) -> tuple[str, str]:
    """Returns both in a unit, or in bytes where that would not show that they differ."""
    shown, shown_bound = shown_bytes(size), shown_bytes(bound)
    if shown == shown_bound and size != bound:
        return f"{size:,} bytes", f"{bound:,} bytes"
    return shown, shown_bound


def latency_check(measured: Sequence[Latency], serving: Serving) -> Check | None:
    """Returns the verdict on the best of some measurements of the latency; None without a bound."""
    bound = serving.max_p99_ms
    if bound is None:
        return None
    best = least(measured)
    passed = best.p99_ms <= bound
    relation = "is at most" if passed else "is above"
    times = f", the least of {len(measured)} measurements," if len(measured) > 1 else ""
    load = f"{serving.load.candidates} candidates a request, clients: {serving.load.clients}"
    return Check(
        name="latency",
        passed=passed,
        reason=(
            f"p99 {best.p99_ms:.4g} ms of {best.requests} requests{times} {relation} serving.max_p99_ms {bound:g} "
            f"({load})"
        ),
    )


def least(measured: Sequence[Latency]) -> Latency:
    """Returns the measurement with the least p99."""
    return min(measured, key=lambda latency: latency.p99_ms)


def notes_on_bounds(serving: Serving) -> list[str]:
    """Returns what the spec leaves without a bound."""
    notes = []
    if serving.max_model_size is None:
        notes.append("serving.max_model_size is not declared: the model's size was not judged")
    if serving.max_p99_ms is None:
        notes.append("serving.max_p99_ms is not declared: the latency was measured, but not judged")
    return notes
