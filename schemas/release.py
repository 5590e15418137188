"""What stands between a trained model and its users: slices, gates, and where a blessed model goes."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base import Declaration, Name
from schemas.data import FilePattern

Auc = Annotated[float, Field(ge=0, le=1)]
NotNegative = Annotated[float, Field(ge=0)]


class AucGate(Declaration):
    """Area under the ROC curve of a binary task, over all evaluation examples."""

    metric: Literal["auc"]
    task: Name
    at_least: Auc
    max_drop: NotNegative | None = None
    """Largest loss of AUC against the last blessed model, both scored on the same examples."""


class RmseGate(Declaration):
    """Root mean squared error of a regression task, over all evaluation examples."""

    metric: Literal["rmse"]
    task: Name
    at_most: NotNegative
    max_rise: NotNegative | None = None
    """Largest growth of the error against the last blessed model, both scored on the same examples."""


Gate = Annotated[AucGate | RmseGate, Field(discriminator="metric")]


class Evaluation(Declaration):
    """What the evaluator reports beyond the overall numbers."""

    slices: tuple[tuple[Name, ...], ...] = ()
    """Each slice is a list of one or more features of kind `id`; metrics are given per value (or combination)."""


class DirectoryPush(Declaration):
    """A folder of numbered versions, as TensorFlow Serving reads it."""

    kind: Literal["directory"]
    path: FilePattern
    """Relative to the pipeline root."""


class NoPush(Declaration):
    """Train and judge only."""

    kind: Literal["none"]


Push = Annotated[DirectoryPush | NoPush, Field(discriminator="kind")]
