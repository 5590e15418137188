"""Permutation importance of a model's columns, as the evaluator writes it. Loads without TensorFlow and TFX."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter

FILE_NAME = "importance.json"


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ColumnImportance(_Record):
    """How much worse a metric gets when a column's values are shuffled among the examples.

    Attributes:
        columns: columns of the logs that are shuffled together: lists of equal lengths, such as ids and their weights.
        features: features that read them.
        value: decline of the metric, of an error its rise; None where it is undefined.
        lower: end of the interval of the paired difference; None without one.
        upper: the other end.
    """

    columns: list[str]
    features: list[str]
    value: float | None
    lower: float | None = None
    upper: float | None = None


class TaskImportance(_Record):
    """The importances of one task, the largest first.

    Attributes:
        metric: metric that is compared.
        examples: number of evaluation examples.
    """

    task: str
    metric: str
    examples: int
    columns: list[ColumnImportance]


IMPORTANCES = TypeAdapter(list[TaskImportance])


def read_importances(file: Path) -> list[TaskImportance]:
    """Returns the importances by task; none without the file."""
    return IMPORTANCES.validate_json(file.read_bytes()) if file.is_file() else []
