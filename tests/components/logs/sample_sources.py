"""A small main log and two sources: likes within an hour, and items whose price changes each hour.

Some columns have names that the join uses itself.
"""

import datetime
from pathlib import Path
from typing import Any

from sangam.components.logs.request import Request, parse
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.data import DayLogs
from tests.components.logs.sample_logs import SUFFIX, write

DAYS = ["2024-02-28", "2024-02-29", "2024-03-01"]
MIDNIGHT = {day: 1_709_078_400 + 86_400 * number for number, day in enumerate([*DAYS, "2024-03-02"])}

INPUTS = Inputs.model_validate_json(
    """{
    "features": {
        "price": {"kind": "numeric", "normalize": "zscore", "missing": 0},
        "tags": {"kind": "ids", "type": "string", "table": "tags", "combiner": "mean"},
        "hour": {"kind": "numeric", "normalize": "zscore", "type": "int"}
    },
    "tasks": {"like": {"kind": "binary"}, "file": {"kind": "regression"}},
    "event_time": "at"
    }"""
)


def logs(formats: tuple[str, str, str] = ("parquet", "parquet", "parquet"), **settings: Any) -> DayLogs:
    """Returns the logs, with settings of sources such as `items__missing`."""
    main, likes, items = formats
    sources: dict[str, Any] = {
        "likes": {
            "kind": "actions",
            "pattern": f"likes/{{YYYY}}-{{MM}}-{{DD}}/*.{SUFFIX[likes]}",
            "format": likes,
            "keys": {"row": {"type": "string"}, "post": {"type": "int"}},
            "time": "time",
            "window_s": 3600,
            "incomplete": "count",
            "columns": {
                "like": {"take": "happened", "where": {"what": "like"}},
                "file": {"take": "sum", "column": "day"},
            },
        },
        "items": {
            "kind": "table",
            "pattern": f"items/{{YYYY}}-{{MM}}-{{DD}}/*.{SUFFIX[items]}",
            "format": items,
            "keys": {"post": {"type": "int", "column": "id"}},
            "time": "updated",
            "max_age_days": 2,
            "columns": {"price": {}, "tags": {"column": "labels"}},
        },
    }
    for path, value in settings.items():
        sources[path.split("__")[0]][path.split("__")[1]] = value
    document = {
        "kind": "days",
        "format": main,
        "pattern": f"shown/{{YYYY}}-{{MM}}-{{DD}}/*.{SUFFIX[main]}",
        "train_days": 2,
        "sources": sources,
    }
    return DayLogs.model_validate(document | ({"list_separator": "|"} if "csv" in formats else {}))


def write_logs(root: Path, formats: tuple[str, str, str] = ("parquet", "parquet", "parquet")) -> None:
    """Writes two files a day: each row's post has a version of that hour, and each third row a like."""
    main, likes, items = formats
    for day in DAYS:
        begin = MIDNIGHT[day]
        for part in range(2):
            numbers = range(12 * part, 12 * part + 12)
            name = f"{day}/part-{part}"
            shown = [{"row": f"{day} {n}", "post": n % 5, "at": begin + 3600 * n + 60, "hour": n} for n in numbers]
            acted = [
                {
                    "row": f"{day} {n}",
                    "post": n % 5,
                    "time": begin + 3600 * n + 60 + n,
                    "what": "like" if n % 3 == 0 else "view",
                    "day": n / 4,
                }
                for n in reversed(numbers)
            ]
            versions = [
                {"id": n % 5, "updated": begin + 3600 * n, "price": n + 0.5, "labels": [f"t{n}", day]} for n in numbers
            ]
            write(root / f"shown/{name}.{SUFFIX[main]}", main, shown)
            write(root / f"likes/{name}.{SUFFIX[likes]}", likes, acted)
            write(root / f"items/{name}.{SUFFIX[items]}", items, versions)


def properties_of(logs: DayLogs, root: Path) -> dict[str, Any]:
    """Returns the properties of ingestion for the last day."""
    return {
        "logs": logs.model_dump_json(),
        "inputs": INPUTS.model_dump_json(),
        "date": DAYS[-1],
        "data_root": str(root),
        "name": "tiny",
        "mode": "full",
        "pipeline_root": str(root.parent / "root"),
        "code": "",
    }


def request_of(logs: DayLogs, root: Path) -> Request:
    """Returns the request of `properties_of`."""
    return parse(properties_of(logs, root), datetime.date(2024, 3, 2))
