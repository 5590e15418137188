"""Generated logs with columns beside the ids: ids hashed to fewer buckets, and features without signal.

The hash trick keeps one row for each of M buckets and lets the ids of a bucket share it; so much memory holds M ids of
a collisionless table.
"""

import datetime
import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sangam.components.arrow_files import open_parquet
from sangam.pipelines.synthetic import generate

FIRST_DAY, NUM_DAYS, SEED = datetime.date(2024, 3, 1), 7, 7
ID_COLUMNS = ("user_id", "post_id", "author_id", "recent_posts")
_SAME_TABLE = {"recent_posts": "post_id"}
NOISE_IDS = 1000


def logs(folder: Path, rows_per_day: int = 60_000) -> dict[str, int]:
    """Makes the logs on the first call; returns how many ids of each column its train days have."""
    if not (folder / "_COUNTS").exists():
        days = generate(
            folder,
            first_day=FIRST_DAY,
            num_days=NUM_DAYS,
            rows_per_day=rows_per_day,
            num_users=rows_per_day // 3,
            num_posts=rows_per_day // 6,
            seed=SEED,
            overwrite=True,
        )
        counts = _num_ids(days[:-1])
        for number, day in enumerate(days):
            (path,) = day.glob("*.parquet")
            pq.write_table(
                _with_columns(open_parquet(path).read(), counts, np.random.default_rng([SEED, number])), path
            )
        (folder / "_COUNTS").write_text("\n".join(f"{name} {count}" for name, count in counts.items()))
    lines = (folder / "_COUNTS").read_text().splitlines()
    return {name: int(count) for name, count in (line.split() for line in lines)}


def hashed(column: str, share: int) -> str:
    """Returns the column with the buckets of an id column: one bucket for every `share` ids."""
    return f"{column}_bucket_{share}"


SHARES = (1, 4)
"""Ids for every row that the memory has room for."""


def _num_ids(days: list[Path]) -> dict[str, int]:
    tables = [open_parquet(next(iter(day.glob("*.parquet")))).read(columns=list(ID_COLUMNS)) for day in days]
    table = pa.concat_tables(tables)
    found = {name: set(table[name].drop_null().to_pylist()) for name in ID_COLUMNS if name not in _SAME_TABLE}
    for name, other in _SAME_TABLE.items():
        found[other] |= set(table[name].combine_chunks().flatten().to_pylist())
    return {name: len(ids) for name, ids in found.items()}


def _with_columns(table: pa.Table, counts: Mapping[str, int], generator: np.random.Generator) -> pa.Table:
    for name in ID_COLUMNS:
        column = table[name].combine_chunks()
        for share in SHARES:
            num_buckets = counts[_SAME_TABLE.get(name, name)] // share
            table = table.append_column(hashed(name, share), _buckets(column, num_buckets))
    table = table.append_column("noise_id", pa.array(generator.integers(NOISE_IDS, size=len(table))))
    return table.append_column("noise", pa.array(generator.standard_normal(len(table)).astype(np.float32)))


def _buckets(column: pa.Array, num_buckets: int) -> pa.Array:
    if pa.types.is_list(column.type):
        return pa.ListArray.from_arrays(column.offsets, _buckets(column.flatten(), num_buckets))
    bucket: dict[object, int | None] = {None: None}
    for value in column.unique().to_pylist():
        if value is not None:
            bucket[value] = int.from_bytes(hashlib.sha256(str(value).encode()).digest()[:8], "little") % num_buckets
    return pa.array([bucket[value] for value in column.to_pylist()], pa.int64())
