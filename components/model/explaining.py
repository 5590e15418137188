"""How much each column matters for the scores of some rows."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from sangam.components.steps.evaluator.importance import importances, shuffled, shuffled_together
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.release import Evaluation
from sangam.schemas.spec.tasks import BinaryTask

Score = Callable[[pa.RecordBatch], Mapping[str, NDArray[Any]]]
"""Returns the scores of a batch, by task."""
CHANGE = "mean_abs_change"
"""Name of the measure without labels."""
_COLUMNS = ["task", "column", "features", "measure", "importance", "lower", "upper"]


def by_labels(inputs: Inputs, tasks: Sequence[str], rows: pa.RecordBatch, score: Score, seed: int) -> pd.DataFrame:
    """Returns how much worse each task's main metric gets when a column is shuffled, as the evaluator measures it.

    Args:
        inputs: features and tasks.
        tasks: tasks whose labels the rows have.
        rows: a list column for each column of the logs.
        score: scores them.
        seed: of the shuffling and of the intervals.
    """
    confidence = Evaluation().confidence.model_copy(update={"seed": seed})
    metrics = {task: "auc" if isinstance(inputs.tasks[task], BinaryTask) else "rmse" for task in tasks}
    only = inputs.model_copy(update={"tasks": {task: inputs.tasks[task] for task in tasks}})
    found = importances(only, Evaluation(confidence=confidence), metrics, rows, score)
    return pd.DataFrame(
        [
            (each.task, ", ".join(of.columns), ", ".join(of.features), each.metric, of.value, of.lower, of.upper)
            for each in found
            for of in each.columns
        ],
        columns=_COLUMNS,
    )


def by_change(inputs: Inputs, rows: pa.RecordBatch, score: Score, seed: int) -> pd.DataFrame:
    """Returns how much each task's scores change on average when a column is shuffled among the rows.

    Args:
        inputs: features and tasks.
        rows: a list column for each column that predictions need.
        score: scores them.
        seed: of the shuffling.
    """
    whole = score(rows)
    order = np.random.default_rng(seed).permutation(rows.num_rows)
    found = []
    for columns, features in shuffled_together(inputs).items():
        changed = score(shuffled(rows, columns, order))
        for task in inputs.tasks:
            change = np.abs(changed[task] - whole[task]).mean() if rows.num_rows else np.nan
            found.append((task, ", ".join(columns), ", ".join(features), CHANGE, float(change), None, None))
    order_of = {task: number for number, task in enumerate(inputs.tasks)}
    found.sort(key=lambda each: (order_of[each[0]], -each[4]))
    return pd.DataFrame(found, columns=_COLUMNS)
