"""What training for unseen ids gains, on days that no table of docs/quality.md tests on: `-m bench.quality.unseen SET`.

The plain specs, without `unseen` and with `unseen: auto` for every table. Two of the sets have items whose ids are new
every week or day, as those of news or offers are.
"""

import argparse
import datetime
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tensorflow as tf

from bench.jobs import job_in
from bench.quality.changes import merged
from bench.quality.examples import examples
from bench.quality.experiments import SHARED_DATA, SPECS, WORK
from bench.quality.training import trained
from bench.results import commit
from sangam.components.arrow_files import open_parquet
from sangam.pipelines.synthetic import generate
from sangam.schemas.contracts.example_files import day_of
from sangam.schemas.loading import load_spec
from sangam.schemas.spec import Spec
from sangam.trainer_module import collectives
from sangam.trainer_module.loop.unseen import settle

FOLDER = WORK / "unseen"


@dataclass(frozen=True)
class Set:
    """A spec, its last evaluated day, and its days.

    Attributes:
        renewed: column whose ids are made new, and the days for which they stay; none: the logs as they are.
    """

    spec: str
    date: str
    train_days: int
    eval_days: int
    renewed: tuple[str, int] | None = None


SETS: Mapping[str, Set] = {
    "online_retail": Set("plain_online_retail.yaml", "2011-09-30", 90, 30),
    "online_retail_new_items": Set("plain_online_retail.yaml", "2011-09-30", 90, 30, ("item_id", 7)),
    "feed": Set("plain_feed.yaml", "2024-03-06", 5, 1),
    "feed_new_posts": Set("plain_feed.yaml", "2024-03-06", 5, 1, ("post_id", 1)),
}


def main() -> None:
    """Prints the AUC of each task, their mean and the mean log loss, by seed."""
    parser = argparse.ArgumentParser(prog="python -m bench.quality.unseen", description=__doc__)
    parser.add_argument("sets", nargs="+", choices=SETS)
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    collectives.start()
    for name in options.sets:
        _measure(name, options.seeds)


def _measure(name: str, seeds: int) -> None:
    of_set = SETS[name]
    plain = load_spec(SPECS / of_set.spec).model_dump(mode="json", exclude_unset=True)
    days = {"data": {"train_days": of_set.train_days, "eval_days": of_set.eval_days}}
    auto = {"tables": {table: {"unseen": "auto"} for table in plain["tables"]}}
    spec, with_auto = (
        Spec.model_validate_json(json.dumps(merged(plain, change))) for change in (days, merged(days, auto))
    )
    splits = examples(spec, of_set.date, _logs(of_set), WORK / "examples")
    shares = _shares(with_auto, splits["train"])
    print(name, commit(), {feature: share for feature, share in shares.items() if share})
    for seed in range(1, seeds + 1):
        for row, unseen in (("without", {}), ("auto", shares)):
            found = trained(spec.ranker(), splits["train"], splits["eval"], seed=seed, unseen=unseen)
            mean = np.mean(list(found.aucs.values()))
            told = {task: round(auc, 4) for task, auc in found.aucs.items()}
            print(f"{row}, seed {seed}: AUC {mean:.4f} log loss {found.log_loss:.5f} {told}", flush=True)


def _shares(spec: Spec, files: tuple[str, ...]) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as folder:
        days = tuple(sorted(set(map(day_of, files))))
        return settle(job_in(Path(folder), spec.ranker(), train_files=files, days=days)[1], rank=0).rates


def _logs(of_set: Set) -> Path:
    if of_set.spec == "plain_feed.yaml":
        source, first = FOLDER / "feed", datetime.date(2024, 3, 1)
        if not source.exists():
            generate(source, first_day=first, num_days=6, rows_per_day=20_000, num_users=4_000, num_posts=3_000, seed=7)
    else:
        source = SHARED_DATA / "online_retail" / "lines"
    if of_set.renewed is None:
        return source
    column, days = of_set.renewed
    last = datetime.date.fromisoformat(of_set.date)
    target = FOLDER / f"{of_set.spec.removesuffix('.yaml')}_{column}"
    for number in range(of_set.train_days + of_set.eval_days):
        day = last - datetime.timedelta(number)
        for file in (source / f"{day}").glob("*.parquet"):
            (target / f"{day}").mkdir(parents=True, exist_ok=True)
            table = open_parquet(file).read()
            place = table.schema.get_field_index(column)
            pq.write_table(
                table.set_column(place, column, _renewed(table[column], day.toordinal() // days)),
                target / f"{day}" / file.name,
            )
    return target


def _renewed(ids: pa.ChunkedArray, period: int) -> pa.Array:
    def renewed(value: Any) -> Any:
        return f"{value}-{period}" if isinstance(value, str) else (value * 1_000 + period % 1_000) % 2**62

    return pa.array([None if value is None else renewed(value) for value in ids.to_pylist()], ids.type)


if __name__ == "__main__":
    main()
