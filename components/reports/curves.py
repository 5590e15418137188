"""The curves of a binary task, as the evaluation's file holds them. Loads without TensorFlow and TFX."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from sangam.components.arrow_files import read_parquet

METRICS_FILE = "metrics.parquet"
"""The file of an evaluation's results, which `steps/evaluator/metrics/measured.py` describes."""
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


def curves_of(source: Path | bytes, place: str) -> dict[str, Curve]:
    """Returns the candidate's curves by task, from `METRICS_FILE`.

    Args:
        source: its path or its content.
        place: path for the error.
    """
    rows = read_parquet(source, place, ["model", "task", "metric", CURVE_COLUMN]).to_pylist()
    return {
        row["task"]: Curve.model_validate_json(row[CURVE_COLUMN])
        for row in rows
        if row["model"] == "candidate" and row[CURVE_COLUMN]
    }
