"""The curves of a binary task, as the evaluation's file holds them. Loads without TensorFlow and TFX."""

from pydantic import BaseModel, ConfigDict

CURVE_COLUMN = "curve"
"""Column of `metrics.parquet` with JSON, in the row of `auc` of all examples."""


class Curve(BaseModel):
    """One task's curves over all examples, from the highest score to the lowest.

    Attributes:
        false_positive_rate: rates by threshold, from 0 to 1: [points].
        true_positive_rate: rates by threshold, from 0 to 1: [points].
        precision: precision by threshold: [points].
        score_edges: rising scores, at equal distances of log-odds: [bins + 1].
        negatives: examples with label 0 whose score is between two edges: [bins]; sums of weights where examples have
            weights.
        positives: the same for label 1.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    false_positive_rate: list[float]
    true_positive_rate: list[float]
    precision: list[float]
    score_edges: list[float]
    negatives: list[float]
    positives: list[float]
