"""Base model of specs and of files between processes; types of names."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class FrozenModel(BaseModel):
    """A closed (unknown keys are errors), frozen, strictly typed model.

    The docstrings below attributes become the descriptions in the JSON Schema and in docs/spec.md.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
"""A name in the spec: lower case letters, digits and underscores, valid as path, label and operation name."""

ModuleName = Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$", max_length=200)]
"""A dotted name of a Python module."""

ColumnName = Annotated[str, Field(min_length=1, max_length=128)]
"""A column of the logs, as spelled in the files."""

PositiveInt = Annotated[int, Field(gt=0)]
PositiveFloat = Annotated[float, Field(gt=0)]
Units = Annotated[tuple[PositiveInt, ...], Field(min_length=1)]
"""Widths of the hidden layers of a tower or an expert, first layer first."""
Fraction = Annotated[float, Field(ge=0, lt=1)]
NonNegativeFloat = Annotated[float, Field(ge=0)]
