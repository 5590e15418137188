"""Results as pandas DataFrames; nothing else in the API imports pandas."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sangam.components.record.run import Step
from sangam.components.record.store import StoredRun
from sangam.components.reports.evaluation import Intervals, Metrics, TaskVerdict
from sangam.components.reports.headline import headline_of
from sangam.components.reports.training import TableReport
from sangam.pipelines.times import Moment

if TYPE_CHECKING:
    from pandas import DataFrame

ALL = "all"
"""Slice of all examples."""
_NUMBER, _TEXT, _COUNT, _TRUTH, _TIME = "float64", "object", "Int64", "boolean", "datetime64[ns]"


def metrics_frame(tasks: Mapping[str, TaskVerdict]) -> "DataFrame":
    """Returns a row for each metric of each task and slice, with its interval and the last blessed model's value."""
    columns = {
        "task": _TEXT,
        "slice": _TEXT,
        "metric": _TEXT,
        "value": _NUMBER,
        "lower": _NUMBER,
        "upper": _NUMBER,
        "last_model": _NUMBER,
    }
    return _frame((row for name, task in tasks.items() for row in _metrics(name, task)), columns)


def _metrics(name: str, task: TaskVerdict) -> Iterator[dict[str, Any]]:
    def rows(part: str, metrics: Metrics, intervals: Intervals, last: Metrics) -> Iterator[dict[str, Any]]:
        for metric, value in metrics.items():
            lower, upper = intervals.get(metric, (None, None))
            told = {"value": value, "lower": lower, "upper": upper, "last_model": last.get(metric)}
            yield {"task": name, "slice": part, "metric": metric, **told}

    yield from rows(ALL, task.metrics, task.intervals, task.baseline)
    for part, metrics in task.slices.items():
        yield from rows(part, metrics, task.slice_intervals.get(part, {}), {})


def gates_frame(tasks: Mapping[str, TaskVerdict]) -> "DataFrame":
    """Returns a row for each gate, with its verdict and its reason."""
    columns = {
        "task": _TEXT,
        "slice": _TEXT,
        "kind": _TEXT,
        "metric": _TEXT,
        "value": _NUMBER,
        "lower": _NUMBER,
        "upper": _NUMBER,
        "bound": _NUMBER,
        "upper_bound": _NUMBER,
        "passed": _TRUTH,
        "reason": _TEXT,
    }
    gates = ((name, gate) for name, task in tasks.items() for gate in task.gates)
    return _frame(({**gate.model_dump(), "task": name, "slice": gate.slice or ALL} for name, gate in gates), columns)


def steps_frame(steps: Iterable[Step]) -> "DataFrame":
    """Returns a row for each step."""
    columns = {
        "step": _TEXT,
        "state": _TEXT,
        "seconds": _NUMBER,
        "cpu_seconds": _NUMBER,
        "peak_memory_bytes": _COUNT,
    }
    return _frame(({**vars(step), "step": step.name} for step in steps), columns)


def tables_frame(tables: Mapping[str, TableReport]) -> "DataFrame":
    """Returns a row for each embedding table after training."""
    counts = dict.fromkeys(("rows", "bytes", "admitted", "rejected", "expired", "evicted"), _COUNT)
    columns = {"table": _TEXT, **counts, "load_max_over_mean": _NUMBER, "unique_share": _NUMBER}
    return _frame(({**table.model_dump(), "table": name} for name, table in tables.items()), columns)


def runs_frame(runs: Iterable[StoredRun], now: Moment) -> "DataFrame":
    """Returns a row for each run, with a column `<task>.<metric>` for the main metric of each task."""
    columns = {
        "run": _TEXT,
        "ranker": _TEXT,
        "date": _TIME,
        "state": _TEXT,
        "started": _TIME,
        "seconds": _NUMBER,
        "version": _TEXT,
        "warnings": _COUNT,
    }
    rows = [_run(run, now) for run in runs]
    metrics = dict.fromkeys((name for row in rows for name in row if name not in columns), _NUMBER)
    return _frame(rows, columns | metrics)


def _run(run: StoredRun, now: Moment) -> dict[str, Any]:
    record = run.record
    mains = {task: headline_of(verdict) for task, verdict in record.tasks.items()} if record else {}
    return {
        "run": run.id,
        "ranker": run.ranker,
        "date": run.date or None,
        "state": run.state,
        "started": run.started and run.started.replace(tzinfo=None),
        "seconds": run.seconds(now),
        "version": record.pushed.version if record and record.pushed else None,
        "warnings": len(record.warnings) if record else 0,
        **{f"{task}.{main.metric}": main.value for task, main in mains.items()},
    }


def _frame(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str]) -> "DataFrame":
    """Returns a frame of these columns and their types, also without rows."""
    import pandas as pd

    return pd.DataFrame(list(rows), columns=list(columns)).astype(dict(columns))
