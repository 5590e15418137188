"""Permutation importance: how much worse the model is when a column's values are shuffled among the examples.

Reference: Breiman, Random Forests, 2001, section 10; Fisher, Rudin and Dominici, All Models are Wrong, 2019.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sangam.components.reports.importance import ColumnImportance, TaskImportance
from sangam.components.steps.evaluator.metrics.block import Block
from sangam.components.steps.evaluator.metrics.draws import Draws
from sangam.components.steps.evaluator.metrics.measured import CANDIDATE, UNDEFINED, Measured, paired_change
from sangam.components.steps.evaluator.metrics.tally import new_totals
from sangam.components.steps.evaluator.models.scoring import Scores
from sangam.components.steps.evaluator.plan import Plan, plan_of
from sangam.components.steps.evaluator.slices.blocks import block_of
from sangam.schemas.derived.columns import feature_columns, serving_columns
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.metrics import direction, without_weights
from sangam.schemas.spec.release import Evaluation

MOST_COLUMNS = 100
"""With more columns nothing is measured: each costs a scoring of all examples."""
_MOST_EXAMPLES, _MOST_CELLS = 3_000, 10_000_000
_REPLICATES = 50

Score = Callable[[pa.RecordBatch], Mapping[str, NDArray[Any]]]
"""Returns the candidate's outputs for a batch, by name."""


def shuffled_together(inputs: Inputs) -> dict[tuple[str, ...], list[str]]:
    """Returns the features by the columns that they read; columns of lists of equal lengths are one."""
    served = {column.name for column in serving_columns(inputs)}
    found: dict[tuple[str, ...], list[str]] = {}
    for name in inputs.features:
        columns = feature_columns(inputs, name)
        for column in columns:
            if column.name in served and not column.beside:
                group = (column.name, *(other.name for other in columns if column.name in other.beside))
                found.setdefault(group, []).append(name)
    return found


def most_examples(num_columns: int) -> int:
    """Returns the number of examples that are shuffled, so that the cost is bounded for any number of columns."""
    return min(_MOST_EXAMPLES, _MOST_CELLS // max(1, num_columns) ** 2)


def importances(
    inputs: Inputs, evaluation: Evaluation, metrics: Mapping[str, str], rows: pa.RecordBatch, score: Score
) -> list[TaskImportance]:
    """Returns the importance of every column for every task, the largest first.

    Args:
        inputs: features and tasks.
        evaluation: level, seed and unit of the bootstrap.
        metrics: main metric by task.
        rows: evaluation examples.
        score: scores them.
    """
    confidence = evaluation.confidence
    only = evaluation.model_copy(update={"slices": (), "metrics": {}, "new_ids": (), "group": None, "list": None})
    plan = plan_of(inputs=inputs, evaluation=only, gates=())
    block, _ = block_of(rows, Scores({CANDIDATE: score(rows)}, {}), plan, lambda: rows)
    draws = Draws.of(block.units, min(_REPLICATES, confidence.replicates), confidence.seed)
    chosen = {task: _measurable(metric, plan.kinds[task]) for task, metric in metrics.items()}
    whole = _measured(plan, block, draws, chosen)
    by_task: dict[str, list[ColumnImportance]] = {task: [] for task in chosen}
    order = np.random.default_rng(confidence.seed).permutation(rows.num_rows)
    for columns, features in shuffled_together(inputs).items():
        if not set(columns) <= set(rows.schema.names):
            continue
        scores = Scores({CANDIDATE: score(shuffled(rows, columns, order))}, {})
        other, _ = block_of(rows, scores, plan, lambda: rows)
        found = _measured(plan, replace(block, scores=other.scores), draws, chosen)
        for task, metric in chosen.items():
            better, worse = whole[task], found[task]
            if direction(metric, {}) == "lower":
                better, worse = worse, better
            lost = paired_change(better, worse, confidence.level)
            by_task[task].append(
                ColumnImportance(
                    columns=list(columns), features=features, value=lost.value, lower=lost.lower, upper=lost.upper
                )
            )
    return [
        TaskImportance(
            task=task,
            metric=chosen[task],
            examples=rows.num_rows,
            columns=sorted(found, key=lambda each: -(each.value if each.value is not None else float("-inf"))),
        )
        for task, found in by_task.items()
    ]


def _measurable(metric: str, kind: str) -> str:
    """Returns the metric itself, or that of its kind where examples alone do not give it or it has no direction."""
    plain = without_weights(metric)
    known = ("auc", "pr_auc", "log_loss", "normalized_entropy") if kind == "binary" else ("rmse", "mae")
    return plain if plain in known else known[0]


def _measured(plan: Plan, block: Block, draws: Draws, chosen: Mapping[str, str]) -> dict[str, Measured]:
    return dict(_each(plan, block, draws, chosen))


def _each(plan: Plan, block: Block, draws: Draws, chosen: Mapping[str, str]) -> Iterator[tuple[str, Measured]]:
    replicates = draws.times_NR.shape[1] - 1
    for task, metric in chosen.items():
        totals = new_totals(plan.kinds[task], is_weighted=False)(replicates, plan.settings.confidence.seed)
        rows = block.taking_part((CANDIDATE, task))
        totals.add(block.part((CANDIDATE, task)), draws if rows is None else draws.where(rows))
        value, *others = map(float, totals.metrics()[metric])
        yield task, Measured(value, replicates=tuple(others)) if np.isfinite(value) else UNDEFINED


def shuffled(rows: pa.RecordBatch, columns: tuple[str, ...], order: NDArray[np.int64]) -> pa.RecordBatch:
    """Returns rows whose values of some columns are those of other rows."""
    for column in columns:
        place = rows.schema.get_field_index(column)
        rows = rows.set_column(place, column, rows.column(place).take(pa.array(order)))
    return rows
