"""Parts of every role that judges, samples or sends, as a team outside would write them."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from sangam.parts import (
    AlertTarget,
    Array,
    Column,
    ColumnName,
    Direction,
    Fraction,
    Metric,
    NegativeSampler,
    PositiveFloat,
    PositiveInt,
    Slice,
    TaskKind,
)


class FBeta(Metric):
    """F-beta of predictions of at least a threshold; undefined without a positive and a prediction of one."""

    kind: Literal["f_beta"]
    direction: ClassVar[Direction] = "higher"
    task_kinds: ClassVar[Sequence[TaskKind]] = ("binary",)
    largest: ClassVar[float] = 1.0
    beta: PositiveFloat
    """Weight of recall over precision."""
    threshold: Fraction = 0.5
    """Least prediction that counts as positive."""

    def sums(self, labels_B: Array, predictions_B: Array) -> Array:
        is_told = predictions_B >= self.threshold
        return np.stack([labels_B * is_told, labels_B, is_told], axis=1)

    def value(self, sums: Array) -> Array:
        right, positive, told = np.moveaxis(sums, -1, 0)
        return (1 + self.beta**2) * right / (self.beta**2 * positive + told)


class Surprise(Metric):
    """Cross-entropy in nats: the product's log_loss, written again."""

    kind: Literal["surprise"]
    direction: ClassVar[Direction] = "lower"
    task_kinds: ClassVar[Sequence[TaskKind]] = ("binary",)

    def sums(self, labels_B: Array, predictions_B: Array) -> Array:
        chances_B = np.clip(predictions_B, 1e-7, 1 - 1e-7)
        losses_B = -np.log(np.where(labels_B > 0, chances_B, 1 - chances_B))
        return np.stack([losses_B, np.ones_like(losses_B)], axis=1)

    def value(self, sums: Array) -> Array:
        return sums[..., 0] / sums[..., 1]


class Squared(Metric):
    """Mean squared error; of probabilities the Brier score."""

    kind: Literal["mean_squared"]
    direction: ClassVar[Direction] = "lower"
    task_kinds: ClassVar[Sequence[TaskKind]] = ("binary", "regression", "watch_time")

    def sums(self, labels_B: Array, predictions_B: Array) -> Array:
        return np.stack([(labels_B - predictions_B) ** 2, np.ones_like(labels_B)], axis=1)

    def value(self, sums: Array) -> Array:
        return sums[..., 0] / sums[..., 1]


class Initial(Slice):
    """Slices by the first letter of a text."""

    kind: Literal["initial"]
    column: ColumnName
    """Column of texts."""

    def reads(self) -> Sequence[Column]:
        return [Column(self.column, "string")]

    def texts(self, columns: Sequence[Array]) -> Array:
        return columns[0].astype("U1")


class Length(Slice):
    """Slices by whether a list has many values."""

    kind: Literal["length"]
    column: ColumnName
    """Column of lists."""
    many: PositiveInt
    """Fewest values of a long list."""

    def reads(self) -> Sequence[Column]:
        return [Column(self.column, "string", is_list=True)]

    def texts(self, columns: Sequence[Array]) -> Array:
        lengths_B = np.array([len(values) for values in columns[0]])
        return np.where(lengths_B >= self.many, "long", "short")


class Kept(Slice):
    """One slice of all examples, which keeps the values that it is given."""

    kind: Literal["kept"]
    seen: ClassVar[list[list[list[object]]]] = []

    def reads(self) -> Sequence[Column]:
        return [Column("at", "float"), Column("user", "int"), Column("town", "string")]

    def texts(self, columns: Sequence[Array]) -> Array:
        self.seen.append([values.tolist() for values in columns])
        return np.full(len(columns[0]), "x")


class Tempered(NegativeSampler):
    """In proportion to a power of the positives, which softens popularity."""

    kind: Literal["tempered"]
    power: PositiveFloat
    """Exponent; 1: in proportion to the positives."""
    never: str | int | None = None
    """Item that is not drawn."""

    def weights(self, items_I: Array, positives_I: Array) -> Array:
        return np.where(items_I == self.never, 0.0, positives_I**self.power)


class Chat(AlertTarget):
    """A message for a room of a chat, with the key in a header."""

    kind: Literal["chat"]
    reads_key: ClassVar[bool] = True
    room: str
    """Room that is written to."""

    def payload(self, event: Mapping[str, Any], key: str) -> Any:
        del key
        return {"room": self.room, "text": f"{event['pipeline']} {event['kind']}: {event['reason']}"}

    def headers(self, key: str) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {key}"}
