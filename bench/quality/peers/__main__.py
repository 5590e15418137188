"""What an untouched draft gives beside LightGBM, XGBoost and CatBoost: `python -m bench.quality.peers [SETS]`.

Measures what is missing, one model after another, so that the same call resumes an interrupted one, and writes the
table of docs/quality.md; `--renew` measures all anew, `--renew --only sangam` ours alone. The peers are in an
environment of their own (`bench/quality/peers/setup.sh`), and are left out where it is not there.
"""

import argparse
import json
import subprocess
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from bench.quality.experiments import WORK
from bench.quality.peers import ours
from bench.quality.peers.columns import rows_of, table_of
from bench.quality.peers.contest import CONTESTS, Contest
from bench.quality.peers.results import LAGGED, OURS, REFITTED, STOPPED, Measured, Result, add, markdown, read
from bench.quality.report import put
from bench.results import commit
from sangam.schemas.loading import load_spec

RESULTS = WORK / "peers.jsonl"
DOCUMENT = Path("docs") / "quality.md"
PYTHON = Path(".venv-trees") / "bin" / "python"
_ROWS = {
    "sangam": OURS,
    "lightgbm": REFITTED,
    "lightgbm_lagged": LAGGED,
    "xgboost": "XGBoost, refitted",
    "catboost": "CatBoost, refitted",
}
"""Contestants, and the row without which one was not measured."""


def main() -> None:
    """Measures, and writes the table."""
    names = [contest.name for contest in CONTESTS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", choices=[[], *names], help=f"of {', '.join(names)}; all when left out")
    parser.add_argument("--only", nargs="+", default=[*_ROWS], choices=[*_ROWS], help="contestants")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--renew", action="store_true", help="measure again what was measured before")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no model begins after so many")
    options = parser.parse_args()
    if not PYTHON.exists():
        print("peers: their libraries are not here and are left out (bench/quality/peers/setup.sh)", flush=True)
        options.only = [each for each in options.only if each == "sangam"]
    known = set() if options.renew else {(each.contest, each.row, each.seed) for each in read(RESULTS)}
    until = time.monotonic() + options.seconds
    contests = [contest for contest in CONTESTS if contest.name in (options.sets or names)]
    for contest, seed, contestant in product(contests, range(1, options.seeds + 1), options.only):
        if (contest.name, _ROWS[contestant], seed) not in known and time.monotonic() < until:
            for row, found in _measured(contest, contestant, seed).items():
                add(RESULTS, Result(contest.name, row, seed, commit(), found))
                print(f"{contest.name}, {row}, seed {seed}: {found}", flush=True)
    put(DOCUMENT, "peers", markdown(read(RESULTS), {contest.name: contest.title for contest in CONTESTS}))


def _measured(contest: Contest, contestant: str, seed: int) -> dict[str, Measured]:
    """Returns what was measured, by the row of the table."""
    folder = WORK / "peers" / contest.name
    if contestant == "sangam":
        return {OURS: ours.measured(contest, seed, folder)}
    if contestant == "lightgbm_lagged" and not contest.date:
        return {}
    library, *is_lagged = contestant.split("_")
    found = trained(library, seed, prepared(contest, folder, is_lagged=bool(is_lagged)), contest.labels)
    stopped = {STOPPED: found["stopped"]} if contestant == "lightgbm" else {}
    return {_ROWS[contestant]: found["refitted"]} | stopped


def prepared(contest: Contest, folder: Path, *, is_lagged: bool) -> Path:
    """Returns the table that trees read: the draft's rows and columns, and perhaps lagged rates."""
    spec_file, _ = ours.drafted(contest, folder)
    spec = load_spec(spec_file)
    table = folder / ("lagged.npz" if is_lagged else "table.npz")
    np.savez(table, **table_of(spec, rows_of(spec, contest.date, contest.data()), contest.labels, is_lagged=is_lagged))
    return table


def trained(library: str, seed: int, table: Path, tasks: Sequence[str]) -> dict[str, Measured]:
    """Returns what trees give that stop early, and as many on validation rows too."""
    scores_file, begun = table.with_name(f"{table.stem}-{library}.npz"), time.monotonic()
    command = [PYTHON, "-W", "ignore", "-m", "bench.quality.peers.trees", library, str(seed), table, scores_file]
    answer = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    costs, wall_s = json.loads(answer.splitlines()[-1]), time.monotonic() - begun
    given = np.load(table)
    labels, scores = given["labels"][given["parts"] == 2], np.load(scores_file)
    found = {}
    for way in ("stopped", "refitted"):
        of_way = dict(zip(tasks, zip(labels.T, scores[way].T, strict=True), strict=True))
        found[way] = Measured(
            aucs={task: float(roc_auc_score(y, score)) for task, (y, score) in of_way.items()},
            calibrations={task: float(score.mean() / y.mean()) for task, (y, score) in of_way.items()},
            cpu_s=sum(cost[f"{way}_s"] for cost in costs),
            wall_s=wall_s,
            note=f"trees: {', '.join(str(cost['trees']) for cost in costs)}",
        )
    return found


if __name__ == "__main__":
    main()
