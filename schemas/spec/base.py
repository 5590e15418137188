"""What every part of the declaration shares: the closed, frozen base model and the types of names."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Declaration(BaseModel):
    """A closed (unknown keys are errors), frozen, strictly typed part of a spec."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
"""A name in the spec: lower case letters, digits and underscores, so that it can be a path, a label and an op name."""

ColumnName = Annotated[str, Field(min_length=1, max_length=128)]
"""A column of the logs, as it is spelled in the files."""

PositiveInt = Annotated[int, Field(gt=0)]
PositiveFloat = Annotated[float, Field(gt=0)]
Units = Annotated[tuple[PositiveInt, ...], Field(min_length=1)]
"""Widths of the hidden layers of a tower or an expert, first layer first."""
