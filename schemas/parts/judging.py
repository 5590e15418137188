"""The roles of parts in NumPy, which judge and sample, and of receivers of alerts. B examples, S sums, I items."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Literal

from sangam.schemas.parts.base import Name
from sangam.schemas.parts.columns import Column
from sangam.schemas.parts.kinds import Part

Array = Any
"""A NumPy array."""
Direction = Literal["higher", "lower", "target"]
"""Better values: higher, lower, or (`target`) nearer to 1; the gate of a target is a band."""
TaskKind = Literal["binary", "regression", "watch_time"]


class Metric(Part):
    """Metric of sums over examples, so that it has slices and intervals. Weights of examples weigh the sums."""

    role, compute = "metric", "sums"
    direction: ClassVar[Direction]
    task_kinds: ClassVar[Collection[TaskKind]]
    largest: ClassVar[float | None] = None
    """Largest possible value; None: there is none."""

    def sums(self, labels_B: Array, predictions_B: Array) -> Array:
        """Returns the S numbers of each example that are summed: [B, S], finite. Both arguments are finite float64."""
        raise NotImplementedError

    def value(self, sums: Array) -> Array:
        """Returns the metric of sums [..., S]: [...], NaN where it is undefined."""
        raise NotImplementedError


class Slice(Part):
    """Slices of the examples, by a text for each."""

    role, compute = "slice", "texts"
    name: Name | None = None
    """Name in reports and gates. Left out: the kind."""

    def reads(self) -> Sequence[Column]:
        """Returns the columns that it reads, each of which a feature, task or key reads too."""
        raise NotImplementedError

    def texts(self, columns: Sequence[Array]) -> Array:
        """Returns [B] texts; an example with "" is in no slice.

        Args:
            columns: in the order of `reads`, [B]: float64, int64 or str; of lists an object for each, an array. A
                missing float is NaN, a missing text "", a missing int 0.
        """
        raise NotImplementedError


class NegativeSampler(Part):
    """Probabilities of candidates of a day. They are drawn with replacement, by the seed and the row."""

    role, compute = "negative_sampler", "weights"

    def weights(self, items_I: Array, positives_I: Array) -> Array:
        """Returns [I], at least 0, of int64 or str ids, by the numbers of their positives. Only the arguments count."""
        raise NotImplementedError


class AlertTarget(Part):
    """Receiver of alerts."""

    role, compute = "alert_target", "payload"
    reads_key: ClassVar[bool] = False
    """Whether the variable `alerts.key_env` has a key for it; otherwise the key is empty."""

    def payload(self, event: Mapping[str, Any], key: str) -> Any:
        """Returns the body, as JSON has it, of an event: the body of `format: generic`."""
        raise NotImplementedError

    def headers(self, key: str) -> Mapping[str, str]:
        """Returns headers of the request; none by default."""
        del key
        return {}
