"""What `tune: auto` finds within an hour from a plain spec: `python -m bench.quality.search online_retail`.

The search sees validation data alone. Its best spec then runs to the end once, by `sangam run`, on the test days or
rows of docs/quality.md. Both folders stay in runs/quality/search: the same command resumes an interrupted search.
"""

import argparse
import csv
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from bench.quality.changes import merged
from bench.quality.experiments import SHARED_DATA, SPECS, WORK
from bench.quality.one_change import census_validation

_DAYS = {"train_days": 335, "validation_days": 31, "eval_days": 39}
_LAST_DAY = "2011-12-09"
_SPLITS = {"train": "train/*.parquet", "validation": "validation/*.parquet", "eval": "test/*.parquet"}
_ALL = "all/*.parquet"


def main() -> None:
    """Searches, runs the best spec, and prints its AUC by task."""
    parser = argparse.ArgumentParser(prog="python -m bench.quality.search", description=__doc__)
    parser.add_argument("data", choices=["online_retail", "census_all_features"])
    parser.add_argument("--minutes", type=float, default=60.0)
    options = parser.parse_args()
    folder = WORK / "search" / options.data
    is_census = options.data == "census_all_features"
    data = _census(folder / "data") if is_census else SHARED_DATA / "online_retail" / "lines"
    date = [] if is_census else ["--date", _LAST_DAY]
    plain = YAML(typ="safe").load((SPECS / f"plain_{options.data}.yaml").read_text())
    of_data = {"splits": _SPLITS} if is_census else _DAYS
    spec = _written(folder / "spec.yaml", merged(plain, {"data": of_data, "tune": "auto"}))
    places = ["--data", str(data), "--root", str(folder / "root"), *date]
    _sangam("tune", str(spec), *places, "--minutes", str(options.minutes), wanted={0})
    [found] = sorted((folder / "root" / "tune").glob("*/*/best.yaml"))[-1:]
    best = found
    if is_census:
        # The validation rows are trained on too, for as many epochs as were best without them.
        epochs = {"early_stopping": None, "epochs": _best_epoch(found.with_name("trials.csv"))}
        splits = {"train": _ALL, "validation": None}
        chosen = YAML(typ="safe").load(found.read_text())
        best = _written(folder / "best.yaml", merged(chosen, {"data": {"splits": splits}, "training": epochs}))
    _sangam("run", str(best), *places, wanted={0, 1, 3})
    summary = max((folder / "root" / "runs").glob("*/summary.json"))
    print(found.with_name("trials.md").read_text().splitlines()[2])
    print(json.dumps(json.loads(summary.read_text()).get("metrics"), indent=1))


def _census(folder: Path) -> Path:
    """Makes the splits train and validation of the train rows; returns the folder."""
    source = SHARED_DATA / "census_income" / "all_features"
    parts = census_validation(source, WORK / "census_validation")
    folder.mkdir(parents=True, exist_ok=True)
    links = {"train": parts / "train", "validation": parts / "test", "test": source / "test", "all": source / "train"}
    for name, target in links.items():
        if not (folder / name).exists():
            (folder / name).symlink_to(target.resolve(), target_is_directory=True)
    return folder


def _written(path: Path, document: Mapping[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        YAML().dump(dict(document), file)
    return path


def _best_epoch(table: Path) -> int:
    with table.open() as file:
        trials = [trial for trial in csv.DictReader(file) if trial["state"] == "done"]
    objective = list(trials[0])[2]
    return int(max(trials, key=lambda trial: float(trial[objective]))["epoch"])


def _sangam(*arguments: str, wanted: set[int]) -> None:
    code = subprocess.run([sys.executable, "-m", "pipelines.cli", *arguments], check=False).returncode
    if code not in wanted:
        raise SystemExit(code)


if __name__ == "__main__":
    main()
