"""Stands in for `sangam run` in a backfill: leaves the summary that `pretend.json` in the root says for its date."""

import json
import sys
import time
from pathlib import Path


def main(arguments: list[str]) -> int:
    """Runs; the options come in pairs."""
    assert arguments[0] == "run"
    options = dict(zip(arguments[2::2], arguments[3::2], strict=True))
    root, date = Path(options["--root"]), options["--date"]
    told = json.loads((root / "pretend.json").read_text()).get(date, {"code": 0})
    with (root / "calls.txt").open("a") as calls:
        calls.write(f"{date}\n")
    print(f"pretends to run {date}", flush=True)
    if told.get("hangs"):
        time.sleep(600)
    code: int = told["code"]
    if code in (0, 3):
        run = root / "runs" / str(time.time_ns())
        run.mkdir(parents=True)
        (run / "summary.json").write_text(
            json.dumps(record(run, date, told.get("auc", 0.7), "refused" if code else "blessed"))
        )
    return code


def record(run: Path, date: str, auc: float, status: str) -> dict[str, object]:
    """Returns the record of a run, with what a backfill reads of it."""
    task = {"metrics": {"auc": auc}, "gates": []}
    return {
        "run": run.name,
        "path": str(run),
        "name": "short_video",
        "status": status,
        "blessed": status == "blessed",
        "mode": "incremental",
        "base_last_day": "2024-03-01",
        "days": {"train": ["2024-03-02"], "eval": [date]},
        "tasks": {name: task for name in ("like", "share", "download", "long_watch")},
        "total_seconds": 10.0,
        "steps": {"trainer": {"state": "ran", "seconds": 4.0}},
        "notes": [f"note of {date}"],
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
