"""How long is waited for what: of the step that watches a training job, not of the training."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Seconds.

    Attributes:
        backoff_s: before the first repetition of a request; doubled every time.
        max_backoff_s: the longest wait between two requests, also where the server asks for more.
        patience_s: how long requests may fail one after another before the step gives up.
        watch_s: how long the server keeps one watch open.
        silence_s: a stream that has given nothing and not ended for so long is taken for dead; longer than `watch_s`.
        tick_s: between two looks at what no watch tells, such as the time.
        pending_s: how long a pod may wait before it is told why.
        operator_s: how long the operator may take to see a new job.
        removal_s: how long the removal of a run may take.
        started_s: what starting may take beyond `cluster.deadline_s`.
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
    """Kubernetes kills a pod 30 s after it has asked it to end, and the step's own removal must be over by then."""
    started_s: float = 600.0
