"""Timeouts of the step that watches a training job."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Timeouts and intervals in seconds.

    Attributes:
        backoff_s: wait before the first retry of a request; doubled every time.
        max_backoff_s: longest wait between two requests, even if the server asks for more.
        patience_s: maximum time of failing requests before the step gives up.
        watch_s: time after which the server closes a watch.
        silence_s: time after which a stream without data is considered dead; longer than `watch_s`.
        tick_s: interval of checks that no watch triggers, such as of the deadline.
        pending_s: waiting time of a pod after which the reason is logged.
        operator_s: time for the operator to handle a new job.
        removal_s: time for the removal of a run.
        started_s: time for the start, in addition to `cluster.deadline_s`.
    """

    backoff_s: float = 0.5
    max_backoff_s: float = 15.0
    patience_s: float = 300.0
    watch_s: int = 60
    silence_s: float = 90.0
    tick_s: float = 5.0
    pending_s: float = 60.0
    operator_s: float = 120.0
    removal_s: float = 15.0
    """Longer than pods may take to end (`pods.GRACE_S`): the owners' removal and the kubelet's report take seconds too.
    Kubernetes kills the step's pod 30 s after SIGTERM; the removal must be complete by then."""
    started_s: float = 600.0
