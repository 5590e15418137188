"""Checks the model's size and latency against the bounds of a spec's `serving` section."""

from collections.abc import Sequence
from dataclasses import dataclass

from sangam.components.reports.serving import Check
from sangam.schemas.quantities import shown_bytes
from sangam.schemas.spec.serving import Serving

MEASUREMENTS = 3
"""Attempts to meet the latency bound: other work on the machine makes a model slower, never faster."""


@dataclass(frozen=True)
class Latency:
    """Latency under `serving.load`, measured at the client."""

    p50_ms: float
    p99_ms: float
    requests: int


def size_check(model_bytes: int, serving: Serving) -> Check | None:
    """Checks the model's size; None without a bound."""
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
    """Returns both sizes in a larger unit, or in bytes if they would look equal in it."""
    text, bound_text = shown_bytes(size), shown_bytes(bound)
    if text == bound_text and size != bound:
        return f"{size:,} bytes", f"{bound:,} bytes"
    return text, bound_text


def latency_check(measured: Sequence[Latency], serving: Serving) -> Check | None:
    """Checks the best of several latency measurements; None without a bound."""
    bound = serving.max_p99_ms
    if bound is None:
        return None
    best = least(measured)
    passed = best.p99_ms <= bound
    relation = "is at most" if passed else "is above"
    times = f", the best of {len(measured)} measurements," if len(measured) > 1 else ""
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
    """Returns the measurement with the lowest p99."""
    return min(measured, key=lambda latency: latency.p99_ms)


def notes_on_bounds(serving: Serving) -> list[str]:
    """Returns a note for each bound that the spec leaves out."""
    notes = []
    if serving.max_model_size is None:
        notes.append("serving.max_model_size is not set: the model's size was not judged")
    if serving.max_p99_ms is None:
        notes.append("serving.max_p99_ms is not set: the latency was measured, but not judged")
    return notes
