"""Logs of several days with gaps, their history by brute force, and the steps up to transformed examples."""

import datetime
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sangam.schemas.spec import Inputs
from sangam.schemas.spec.data import DayLogs
from tests.components.logs.sample_logs import Row, run_executor


def rows_of_days(days: Sequence[str], rows: int, seed: int) -> dict[str, list[Row]]:
    """Returns random rows; ids repeat and may be missing, labels may be missing or masked."""
    generator = np.random.default_rng(seed)

    def row() -> Row:
        return {
            "user": None if generator.random() < 0.1 else f"u{generator.integers(0, 5)}",
            "post": None if generator.random() < 0.1 else int(generator.integers(-2, 3)),
            "like": None if generator.random() < 0.2 else int(generator.random() < 0.4),
            "seen": int(generator.random() < 0.7),
            "rating": float(np.float32(generator.normal())),
        }

    return {day: [row() for _ in range(rows)] for day in days}


def before(rows: Mapping[str, Sequence[Row]], day: str, days: int | None, first: str) -> list[Row]:
    """Returns the rows of the days that count for a row of a day: `days` before it, or all from `first` on."""
    date = datetime.date.fromisoformat(day)
    start = first if days is None else (date - datetime.timedelta(days=days)).isoformat()
    return [row for other, of_day in rows.items() if start <= other < day for row in of_day]


def has_same(row: Row, *columns: str) -> Callable[[Row], bool]:
    """Returns whether another row has the same ids; none has where one is missing."""
    return lambda other: all(row[name] is not None and row[name] == other[name] for name in columns)


def rate(labels: Sequence[float], smoothing: float, prior: float) -> float:
    """Returns (sum + n prior) / (count + n)."""
    return (sum(labels) + smoothing * prior) / (len(labels) + smoothing)


def ingested(root: Path, logs: DayLogs, inputs: Inputs, date: str, data: Path, base: Any = None) -> Any:
    """Runs ingestion; with a base, only the days after it are trained on."""
    from sangam.components.steps.example_gen.start import Start

    properties = {
        "logs": logs.model_dump_json(),
        "inputs": inputs.model_dump_json(),
        "date": date,
        "data_root": str(data),
        "name": "tiny",
        "mode": "incremental" if base else "full",
        "pipeline_root": str(root),
        "start": Start(base=base).model_dump_json() if base else "",
        "code": "",
    }
    return run_executor(properties, root / "examples")


def values_by_day(root: Path, split: str, names: Sequence[str], folder: str = "transformed") -> dict[str, Any]:
    """Returns the values of columns of one number, by day: {day: [rows, names]}, NaN where there is none."""
    from sangam.components.examples.listing import read_listing
    from sangam.components.examples.reading import large_batches

    found = {}
    for day in read_listing(str(root / folder)).splits[split]:
        whole = pa.Table.from_batches(list(large_batches(day.files)))
        columns = [[(each or [np.nan])[0] for each in whole.column(name).to_pylist()] for name in names]
        found[str(day.day)] = np.asarray(columns).T
    return found


def inputs_of(features: Mapping[str, Any], tasks: Mapping[str, Any]) -> Inputs:
    """Returns inputs of these features and tasks."""
    return Inputs.model_validate_json(json.dumps({"features": features, "tasks": tasks}))
