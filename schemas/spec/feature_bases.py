"""What kinds of features have in common: a column, and numbers with an encoding."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from sangam.schemas.parts import roles
from sangam.schemas.parts.base import ColumnName
from sangam.schemas.spec.encodings import Encoding, PiecewiseLinearEncoding, StandardEncoding

NumberType = Literal["float", "int"]
Normalization = Literal["none", "zscore", "minmax"]
Clip = Annotated[tuple[float, float], Field(min_length=2, max_length=2)]


class OneColumn(roles.Feature):
    """A feature of one column of the logs."""

    column: ColumnName | None = None
    """Column of the logs. Left out: the column with the name of the feature."""


Missing = float | Literal["learned"]
"""Replacement of a missing number; `learned`: 0, and another input of the model that is then 1."""


class NumberFeature(roles.Feature):
    """A feature that is one number before it becomes inputs of the model."""

    normalize: Normalization = "zscore"
    """Normalization by statistics of the training split; not for piecewise linear encoding, whose bins are
    statistics."""
    encoding: Encoding = PiecewiseLinearEncoding(kind="piecewise_linear")
    """Encoding of the number as inputs of the model. Left out: piecewise linear (measured in docs/quality.md), or
    standard where `normalize` is given."""

    @model_validator(mode="after")
    def _standard_where_normalized(self) -> Self:
        if "normalize" in self.model_fields_set and "encoding" not in self.model_fields_set:
            # A frozen model: only this validator may write.
            self.__dict__["encoding"] = StandardEncoding(kind="standard")
        return self

    @property
    def is_binned(self) -> bool:
        """Whether the statistics are the ends of bins."""
        return isinstance(self.encoding, PiecewiseLinearEncoding)

    @property
    def is_scaled(self) -> bool:
        """Whether the statistics are a scale."""
        return self.normalize != "none" and not self.is_binned

    @model_serializer(mode="wrap")
    def _as_written(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Writes either `normalize` or `encoding`, from which both are read again."""
        fields: dict[str, Any] = dump(self)
        if isinstance(self.encoding, StandardEncoding):
            fields.pop("encoding", None)
            fields["normalize"] = self.normalize
        if self.is_binned:
            fields.pop("normalize", None)
        return fields
