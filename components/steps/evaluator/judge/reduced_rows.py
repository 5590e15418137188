"""Judges the quality loss of float16 or int8 rows, measured by the export, against the spec's bound."""

from dataclasses import dataclass

from sangam.components.reports.evaluation import GateVerdict
from sangam.schemas.contracts.export import ExportReport, TaskLoss
from sangam.schemas.spec.serving import Export
from sangam.schemas.spec.tasks import BinaryTask, Task


@dataclass(frozen=True)
class ReducedRows:
    """The spec's bound on reduced rows, and the measured losses.

    Attributes:
        export: the spec's `export` section.
        losses: losses by task.
    """

    export: Export
    losses: dict[str, TaskLoss]


def reduced_rows(export: Export, report: bytes | None) -> ReducedRows | None:
    """Returns the losses that the export measured; None for full rows, which lose nothing.

    Args:
        export: the spec's `export` section.
        report: contents of the export's file, None without one.
    """
    if export.rows == "float32":
        return None
    return ReducedRows(export, ExportReport.model_validate_json(report).tasks if report else {})


def rows_verdict(rows: ReducedRows, task: str, spec: Task) -> GateVerdict:
    """Returns whether a task's loss is within `export.max_auc_loss`."""
    metric = "auc" if isinstance(spec, BinaryTask) else "rmse"
    losses, bound = rows.losses.get(task), rows.export.max_auc_loss
    loss = losses.loss if losses else None
    passed = loss is not None and loss <= bound
    if losses is None:
        reason = f"with {rows.export.rows} rows the loss of {metric} is not known: training wrote no measurement of it"
    elif losses.full is None or losses.reduced is None or loss is None:
        reason = (
            f"with {rows.export.rows} rows the loss of {metric} is not known: it is undefined on the evaluation split"
        )
    else:
        reason = (
            f"with {rows.export.rows} rows {metric} is {losses.reduced:.6f} instead of {losses.full:.6f}, "
            f"{_cost(metric, loss)}, {'within' if passed else 'more than'} max_auc_loss {bound:g}"
        )
    return GateVerdict(kind="rows", metric=metric, bound=bound, value=loss, passed=passed, reason=reason)


def _cost(metric: str, loss: float) -> str:
    if metric == "auc":
        return f"a {'loss' if loss > 0 else 'gain'} of {abs(loss):.6f}"
    return f"a relative {'rise' if loss > 0 else 'fall'} of {abs(loss):.6f}"
