"""Metrics of the version in the shadow of the served one."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from sangam.components.server.metrics import SECONDS

QUEUE, OLD, GONE, ERROR, STOPPED = REASONS = ("queue", "old", "gone", "error", "stopped")
"""Why a request of the share was not scored: too many wait, it waited too long, the version went away meanwhile, it
failed, the server stopped."""


class ShadowMetrics:
    """The metrics of one server."""

    def __init__(self, registry: CollectorRegistry):
        """Registers them."""
        self.version = Gauge(
            "sangam_shadow_version",
            "1 for the version that scores requests in the shadow of the served one.",
            ("name", "version"),
            registry=registry,
        )
        self.refused = Gauge(
            "sangam_shadow_refused",
            "1 for a version in the shadow that cannot score requests to the served one.",
            ("name", "version", "reason"),
            registry=registry,
        )
        self.delta = Gauge(
            "sangam_shadow_delta",
            "Number of the last delta that was applied to the version in the shadow.",
            ("name", "version"),
            registry=registry,
        )
        text = "Time of a request that was scored in the shadow, waiting excluded."
        self.seconds = Histogram("sangam_shadow_seconds", text, buckets=SECONDS, registry=registry)
        text = "Requests of the shadow's share that it did not score; they are logged."
        self._dropped = Counter("sangam_shadow_dropped", text, ("reason",), registry=registry)
        for reason in REASONS:  # Told as 0 from the start: Prometheus sees no increase in a counter that begins with 1.
            self._dropped.labels(reason)
        self.waiting = Gauge("sangam_shadow_waiting", "Requests that wait to be scored.", registry=registry)

    def drop(self, reason: str) -> None:
        """Counts a request that was not scored."""
        self._dropped.labels(reason).inc()
