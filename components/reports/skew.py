"""What differs between served requests and the logs: loads without TensorFlow and TFX."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

FILE_NAME = "skew.json"

Kind = Literal[
    "default in place of a value",
    "value in place of a default",
    "swapped column",
    "candidates in another order",
    "stale table",
    "older version of a join",
    "newer version of a join",
    "unit",
    "time zone",
    "white space",
    "case",
    "encoding",
    "form of numbers",
    "cut text",
    "reversed list",
    "cut list",
    "order of list",
    "rounded",
    "other",
]
"""What is likely to have caused differences."""

Value = str | int | float | None | list[str | int | float | None]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Cause(_Record):
    """What is likely to have caused a column's differences.

    Attributes:
        kind: kind of the cause.
        detail: what exactly was found, as the factor of a unit.
        share: share of the differing values that it explains.
    """

    kind: Kind
    detail: str
    share: float


class Example(_Record):
    """One row in which a column differs.

    Attributes:
        keys: values of the row's keys.
        served: value that the model saw; None: none.
        offline: value by the logs.
    """

    keys: dict[str, Value]
    served: Value
    offline: Value


class ColumnSkew(_Record):
    """One column.

    Attributes:
        column: name.
        compared: number of values.
        different: number of them that differ.
        cause: likely cause; None without differences.
        examples: some of the rows that differ.
    """

    column: str
    compared: int
    different: int
    cause: Cause | None = None
    examples: list[Example] = []

    @property
    def share(self) -> float:
        """Share of the values that differ."""
        return self.different / self.compared if self.compared else 0.0


class FeatureSkew(_Record):
    """All columns.

    Attributes:
        rows: number of served candidates.
        unmatched: those of them that the logs do not have.
        columns: columns, the most different first.
    """

    rows: int
    unmatched: int
    columns: list[ColumnSkew]

    @property
    def worst(self) -> ColumnSkew | None:
        """The most different column; None without columns."""
        return max(self.columns, key=lambda column: column.share, default=None)


class TaskSkew(_Record):
    """The scores of one task.

    Attributes:
        task: name.
        compared: number of scores.
        different: number of them that the version does not give again.
        largest: largest absolute difference.
        examples: some of the rows that differ; `offline` is what the version gives.
    """

    task: str
    compared: int
    different: int
    largest: float
    examples: list[Example] = []

    @property
    def share(self) -> float:
        """Share of the scores that differ."""
        return self.different / self.compared if self.compared else 0.0


class ScoreSkew(_Record):
    """The scores of all tasks, computed again from the logged features.

    Attributes:
        tasks: tasks, by name.
        left_out: number of candidates that cannot be scored again, by reason.
    """

    tasks: list[TaskSkew]
    left_out: dict[str, int]
