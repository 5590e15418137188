"""What float16 or int8 rows cost, as the export has measured it, and whether the spec allows that much."""

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from components.reports.evaluation import GateVerdict
from schemas.spec.serving import Export
from schemas.spec.tasks import BinaryTask, Task

EXPORT_FILE = "export.json"
"""What the export leaves beside the report of training."""


class TaskLoss(BaseModel):
    """A task's metric with full rows and with reduced ones; None where undefined.

    Attributes:
        full: AUC of a binary task, RMSE of a regression, on the evaluation split.
        reduced: the same of the exported rows.
        loss: AUC lost; of the RMSE the relative rise.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    full: float | None
    reduced: float | None
    loss: float | None


class _Report(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    tasks: dict[str, TaskLoss] = {}


@dataclass(frozen=True)
class ReducedRows:
    """What is declared of reduced rows, and what was measured of them.

    Attributes:
        export: the declaration.
        losses: by task.
    """

    export: Export
    losses: dict[str, TaskLoss]


def reduced_rows(export: Export, report: bytes | None) -> ReducedRows | None:
    """Returns what the export has measured; None for rows in full, which cost nothing.

    Args:
        export: the declaration.
        report: contents of the export's file, None if there is no such file.
    """
    if export.rows == "float32":
        return None
    return ReducedRows(export, _Report.model_validate_json(report).tasks if report else {})


def rows_verdict(rows: ReducedRows, task: str, declared: Task) -> GateVerdict:
    """Returns whether a task loses no more by reduced rows than is declared."""
    metric = "auc" if isinstance(declared, BinaryTask) else "rmse"
    found, bound = rows.losses.get(task), rows.export.max_auc_loss
    loss = found.loss if found else None
    passed = loss is not None and loss <= bound
    if found is None:
        reason = f"what {rows.export.rows} rows cost of {metric} is not known: training has left no measurement of it"
    elif found.full is None or found.reduced is None or loss is None:
        reason = f"what {rows.export.rows} rows cost of {metric} is not known: it is undefined on the evaluation split"
    else:
        reason = (
            f"with {rows.export.rows} rows {metric} is {found.reduced:.6f} in place of {found.full:.6f}, "
            f"{_cost(metric, loss)}, {'within' if passed else 'more than'} max_auc_loss {bound:g}"
        )
    return GateVerdict(kind="rows", metric=metric, bound=bound, value=loss, passed=passed, reason=reason)


def _cost(metric: str, loss: float) -> str:
    if metric == "auc":
        return f"a {'loss' if loss > 0 else 'gain'} of {abs(loss):.6f}"
    return f"a {'rise' if loss > 0 else 'fall'} by the share {abs(loss):.6f}"
