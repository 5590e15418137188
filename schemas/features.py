"""The kinds of features: numeric, one id, several ids, a sequence of ids."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base import ColumnName, Declaration, Name, PositiveInt

IdType = Literal["string", "int"]


class _Feature(Declaration):
    column: ColumnName | None = None
    """Column of the logs; the feature's own name when left out."""


class NumericFeature(_Feature):
    """A float. Clipped, then log1p, then normalised, in this order, each where it is declared."""

    kind: Literal["numeric"]
    type: Literal["float", "int"] = "float"
    clip: Annotated[tuple[float, float], Field(min_length=2, max_length=2)] | None = None
    log: bool = False
    normalise: Literal["none", "zscore", "minmax"] = "zscore"
    """Statistics over the training split, computed by TensorFlow Transform."""
    missing: float | None = None
    """Value where the logs have none. Without it, a row without the value is an anomaly that stops the run."""


class IdFeature(_Feature):
    """One id per example; its embedding is one row of the table."""

    kind: Literal["id"]
    type: IdType
    table: Name
    missing: str | int | None = None
    """Id that stands for a missing value. Without it, a row without the id is an anomaly that stops the run."""


class IdsFeature(_Feature):
    """Any number of ids per example, in no particular order; their rows are combined. No ids: zeros."""

    kind: Literal["ids"]
    type: IdType
    table: Name
    combiner: Literal["sum", "mean", "sqrtn"]
    max_values: PositiveInt = 64
    """Values after these are cut off."""


class SequenceFeature(_Feature):
    """Ids in order, most recent first; the first `max_length` are kept. No ids: zeros."""

    kind: Literal["sequence"]
    type: IdType
    table: Name
    max_length: PositiveInt
    encoder: Literal["mean", "positional"] = "mean"
    """`positional`: weights of the positions are learned and normalised over those present (a softmax)."""


class Key(Declaration):
    """A column that evaluation groups or slices examples by, such as a request's number, and that no model sees."""

    column: ColumnName | None = None
    """Column of the logs; the key's own name when left out."""
    type: IdType


EmbeddedFeature = IdFeature | IdsFeature | SequenceFeature
Feature = Annotated[NumericFeature | IdFeature | IdsFeature | SequenceFeature, Field(discriminator="kind")]
