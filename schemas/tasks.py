"""What is predicted."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base import ColumnName, Declaration, PositiveFloat


class _Task(Declaration):
    label: ColumnName | None = None
    """Column of the logs; the task's own name when left out."""
    weight: PositiveFloat = 1.0
    """Factor of this task's mean loss in the sum that training minimises."""


class BinaryTask(_Task):
    """A probability; label 0 or 1; sigmoid cross-entropy."""

    kind: Literal["binary"]


class RegressionTask(_Task):
    """A real number; mean squared error."""

    kind: Literal["regression"]


Task = Annotated[BinaryTask | RegressionTask, Field(discriminator="kind")]
