"""Rows that ingestion samples for logs of positives only, such as purchases or plays."""

from typing import Annotated, Literal

from pydantic import Field

from sangam.schemas.parts import judging
from sangam.schemas.parts.base import ColumnName, FrozenModel
from sangam.schemas.parts.kinds import AnyKind

_Number = Annotated[int, Field(gt=0, le=10_000)]


class Uniform(judging.NegativeSampler):
    """All items alike, each once."""

    kind: Literal["uniform"]


class Popular(judging.NegativeSampler):
    """In proportion to the positives of the item, with replacement."""

    kind: Literal["popular"]


NegativeSampler = Annotated[judging.NegativeSampler, AnyKind(judging.NegativeSampler, word="kind")]


class Negatives(FrozenModel):
    """Sampled rows for logs of positives only. Each row of the logs gets rows with the same user and context and
    another item, never one that the user has in the logs of the same day."""

    label: ColumnName
    """Column that ingestion creates: 1 in rows of the logs, 0 in sampled rows. It is the label of one binary task, and
    the logs must not have it."""
    item: ColumnName
    """Column of the logs with the item. A row without a value is dropped and counted."""
    user: ColumnName
    """Column of the logs with the user. A row without a value is dropped and counted."""
    item_columns: tuple[ColumnName, ...]
    """Columns that describe the item, such as its price: a sampled row has those of its item's newest row. All other
    columns are those of the positive's row."""
    per_positive: _Number = 4
    """Number of sampled rows per positive in the train split."""
    judged_per_positive: _Number = 100
    """Number of candidates per positive in the validation and eval splits: with fewer, all of them. Predictions are
    rates among one positive and so many candidates: the served logit is z + log(per_positive / judged_per_positive)."""
    draw: NegativeSampler = Field(Uniform(kind="uniform"), json_schema_extra={"default": "uniform"})
    """Probability of a candidate. `uniform`: all items alike, each once; `popular`: in proportion to the positives of
    the item, with replacement. A mapping with `kind` is a sampler of your own, with replacement; docs/parts.md."""
    days: Annotated[int, Field(gt=0, le=366)] = 1
    """Days whose items are candidates, the last one that of the row; only for logs by day. In named splits the items
    of the split are."""
    within: tuple[ColumnName, ...] = ()
    """Columns whose values a candidate shares with the positive, such as the country."""
    list_column: ColumnName | None = None
    """Column that ingestion creates: a number of the positive, which its sampled rows share. A key that reads it makes
    a list of each positive and its candidates for `evaluation.list`."""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1
    """Seed of the draws."""

    @property
    def created(self) -> tuple[str, ...]:
        """Returns the columns that ingestion creates."""
        return (self.label, self.list_column) if self.list_column is not None else (self.label,)

    @property
    def of_item(self) -> tuple[str, ...]:
        """Returns the columns that a sampled row takes from its item."""
        return (self.item, *self.item_columns)

    @property
    def read(self) -> tuple[str, ...]:
        """Returns the columns of the logs that the draws depend on, each once."""
        return tuple(dict.fromkeys((*self.of_item, self.user, *self.within)))

    @property
    def kept(self) -> float | None:
        """Returns the share of the judged candidates that the train split has; None if it is all."""
        return self.per_positive / self.judged_per_positive if self.per_positive != self.judged_per_positive else None
