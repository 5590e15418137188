"""Streams: logs, the spec of a daily run on them, and the days after it."""

import datetime
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from sangam.pipelines.synthetic import generate

_SPECS = Path("pipelines") / "specs"
_RETAIL = Path("..") / "shared" / "data" / "online_retail" / "lines"
_FIRST_DAY = datetime.date(2026, 3, 1)
_SIZES = {"rows_per_day": 60_000, "num_users": 6_000, "num_posts": 5_000}


@dataclass(frozen=True)
class Case:
    """Logs and a spec.

    Attributes:
        name: name in the tables.
        spec: file of the shipped spec.
        train_days: days of the daily run that comes first.
        first: streamed day; the daily run has learned from the days before it.
        days: to stream, of those that there are.
        drift: drift of generated logs; None: real logs.
    """

    name: str
    spec: Path
    train_days: int
    first: datetime.date
    days: int
    drift: float | None = None

    def streamed(self, data: Path) -> list[datetime.date]:
        """Returns the days to stream; a shop that is closed has none."""
        days = [self.first + datetime.timedelta(days=number) for number in range(self.days)]
        return [day for day in days if (data / day.isoformat()).is_dir()]

    def logs(self, folder: Path, seed: int) -> Path:
        """Returns the folder of the logs; makes them where they are generated."""
        if self.drift is None:
            return _RETAIL.resolve()
        begin = self.first - datetime.timedelta(days=self.train_days)
        num_days = self.train_days + self.days
        generate(folder, first_day=begin, num_days=num_days, seed=seed, drift=self.drift, **_SIZES)
        return folder

    def write_spec(self, file: Path, seed: int) -> None:
        """Writes the shipped spec with the section `online`, one rank, and a gate that lets any model pass."""
        editor = YAML()
        document: dict[str, Any] = editor.load(self.spec.read_text())
        document |= {"event_time": "event_time", "online": {}}
        document["data"]["train_days"] = self.train_days
        document["training"]["seed"] = seed
        document["cluster"] |= {"ranks": 1, "data_workers": 0}
        document["gates"] = [{"task": next(iter(document["tasks"])), "metric": "auc", "at_least": 0.5}]
        with file.open("w") as opened:
            editor.dump(document, opened)


def _feed(drift: float) -> Case:
    first = _FIRST_DAY + datetime.timedelta(days=5)
    return Case(f"feed, drift {drift:g}", _SPECS / "short_video.yaml", 5, first, 2, drift)


CASES = (
    _feed(0.0),
    _feed(0.25),
    _feed(1.0),
    Case("online retail", _SPECS / "online_retail.yaml", 60, datetime.date(2011, 12, 1), 9),
)


def measured(case: Case, seed: int, folder: Path) -> dict[str, Any]:
    """Runs the daily pipeline, then streams the days after it; returns the result of `stream`.

    Args:
        case: to measure.
        seed: seed of generated logs and of the training.
        folder: folder of all files; must not exist.

    Raises:
        RuntimeError: with the end of the output of what failed.
    """
    folder = folder.resolve()
    folder.mkdir(parents=True)
    data, spec, root = case.logs(folder / "logs", seed), folder / "spec.yaml", folder / "root"
    case.write_spec(spec, seed)
    daily = ["run", str(spec), "--date", case.first.isoformat(), "--data", str(data), "--root", str(root)]
    _output(["sangam.pipelines.cli", *daily])
    days = [day.isoformat() for day in case.streamed(data)]
    told = _output(["bench.freshness.stream", str(spec), str(root), str(data), *days])
    found: dict[str, Any] = json.loads(told.splitlines()[-1])
    return found


def _output(module: list[str]) -> str:
    done = subprocess.run([sys.executable, "-W", "ignore", "-m", *module], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(module)}: exit code {done.returncode}\n{(done.stdout + done.stderr)[-4000:]}")
    return done.stdout
