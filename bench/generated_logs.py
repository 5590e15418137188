"""Writes logs of the sizes that the pipeline is measured at: many rows in many files, or thousands of features.

    python -m bench.generated_logs rows FOLDER --rows 20000000 --files 1000 --days 14
    python -m bench.generated_logs features FOLDER --rows 200000 --numbers 1200 --ids 600 --lists 200

`rows` are those of `sangam generate`, for pipelines/specs/short_video.yaml. `features` writes a spec beside its logs.
"""

import argparse
import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.synthetic.simulation import Scale, simulate

FIRST_DAY = datetime.date(2024, 3, 1)
_ROWS_A_FILE = 10_000
_MISSING = 0.02


def write_rows(folder: Path, *, rows: int, files: int, days: int) -> None:
    """Writes rows of the demo in many files, as many on each day."""
    per_day, files_a_day = rows // days, max(1, files // days)
    scale = Scale(rows_per_day=per_day, num_users=per_day // 2, num_posts=per_day // 4, seed=1)
    for day in simulate(scale, first_day=FIRST_DAY, num_days=days):
        size = -(-day.table.num_rows // files_a_day)
        for number in range(files_a_day):
            path = folder / day.date.isoformat() / f"part-{number:05d}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(day.table.slice(number * size, size), path)
        print(f"{day.date}: {day.table.num_rows} rows in {files_a_day} files", flush=True)


def write_features(folder: Path, *, rows: int, numbers: int, ids: int, lists: int, days: int) -> None:
    """Writes rows of many columns, of which every tenth has an effect on the labels, and their spec."""
    rng = np.random.default_rng(1)
    effect_of_number = rng.normal(size=numbers) * (np.arange(numbers) % 10 == 0) / np.sqrt(numbers / 10)
    effect_of_id = rng.normal(size=(ids, 1000)) * (np.arange(ids) % 10 == 0)[:, None] / np.sqrt(ids / 10)
    for day in range(days):
        date = FIRST_DAY + datetime.timedelta(days=day)
        for number, start in enumerate(range(0, rows // days, _ROWS_A_FILE)):
            size = min(_ROWS_A_FILE, rows // days - start)
            table = _columns(rng, size, date, effect_of_number, effect_of_id, lists)
            path = folder / "logs" / date.isoformat() / f"part-{number:05d}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, path)
    (folder / "wide.yaml").write_text(_spec(numbers, ids, lists, days))


def _columns(
    rng: np.random.Generator,
    size: int,
    date: datetime.date,
    effect_of_number: np.ndarray,
    effect_of_id: np.ndarray,
    lists: int,
) -> pa.Table:
    numbers = rng.normal(size=(size, len(effect_of_number))).astype(np.float32)
    ids = rng.zipf(1.3, size=(size, len(effect_of_id))).clip(max=10**6)
    logit = numbers @ effect_of_number + effect_of_id[np.arange(ids.shape[1]), ids % 1000].sum(axis=1)
    columns = {
        f"n{index}": pa.array(numbers[:, index], mask=rng.random(size) < _MISSING) for index in range(numbers.shape[1])
    }
    columns |= {f"i{index}": pa.array(ids[:, index]) for index in range(ids.shape[1])}
    for index in range(lists):
        lengths = rng.integers(0, 6, size)
        values = rng.zipf(1.3, int(lengths.sum())).clip(max=10**6)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        columns[f"l{index}"] = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values))
    midnight = int(datetime.datetime.combine(date, datetime.time(), datetime.timezone.utc).timestamp())
    columns["event_time"] = pa.array(midnight + np.sort(rng.integers(0, 86_400, size)))
    for task in ("click", "buy"):
        noisy = logit + rng.logistic(size=size) - (2.0 if task == "buy" else 0.5)
        columns[task] = pa.array((noisy > 0).astype(np.int64))
    return pa.table(columns)


def _spec(numbers: int, ids: int, lists: int, days: int) -> str:
    features = [f"  n{index}: {{kind: numeric, missing: 0}}" for index in range(numbers)]
    features += [f"  i{index}: {{kind: id, type: int, table: t{index % 8}}}" for index in range(ids)]
    features += [
        f"  l{index}: {{kind: ids, type: int, table: t{index % 8}, combiner: mean, max_values: 5}}"
        for index in range(lists)
    ]
    return "\n".join(
        [
            "name: wide",
            "data:",
            "  kind: days",
            "  format: parquet",
            "  pattern: '{YYYY}-{MM}-{DD}/*.parquet'",
            f"  train_days: {days - 1}",
            "tables:",
            *(f"  t{index}: {{dim: 8}}" for index in range(8)),
            "features:",
            *features,
            "tasks: {click: {kind: binary}, buy: {kind: binary}}",
            "model:",
            "  kind: ple",
            "  interaction: {kind: dcn_v2, num_layers: 2, rank: 16}",
            "training:",
            "  batch_size_per_rank: 512",
            "  dense_optimizer: {kind: adam, learning_rate: 0.001}",
            "  embedding_optimizer: {kind: adagrad, learning_rate: 0.05}",
            "cluster: {ranks: 1, data_workers: 1}",
            "evaluation: {confidence: {replicates: 20}}",
            "gates:",
            "  - {task: click, metric: auc, at_least: 0.5}",
            "push: {kind: directory, path: serving/wide}",
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("rows", "features"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--days", type=int, default=0, help="14 for rows, 4 for features")
    parser.add_argument("--numbers", type=int, default=1200)
    parser.add_argument("--ids", type=int, default=600)
    parser.add_argument("--lists", type=int, default=200)
    args = parser.parse_args()
    if args.what == "rows":
        write_rows(args.folder, rows=args.rows, files=args.files, days=args.days or 14)
    else:
        sizes = {"numbers": args.numbers, "ids": args.ids, "lists": args.lists}
        write_features(args.folder, rows=args.rows, days=args.days or 4, **sizes)


if __name__ == "__main__":
    main()
