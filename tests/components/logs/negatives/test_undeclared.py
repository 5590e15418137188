"""Columns that have one value per item, and those of users, moments and both."""

import numpy as np
import pyarrow as pa

from sangam.components.logs.negatives.catalog import keys_of
from sangam.components.logs.negatives.undeclared import count_pairs, undeclared
from sangam.schemas.spec.negatives import Negatives

_NEGATIVES = Negatives(label="bought", item="item", user="user", item_columns=())


def _lists(values: list[object], kind: pa.DataType) -> pa.Array:
    return pa.array(
        [value if isinstance(value, list) or value is None else [value] for value in values], pa.list_(kind)
    )


def _batch(num_rows: int, seed: int) -> pa.RecordBatch:
    random = np.random.default_rng(seed)
    users, items = random.integers(0, 40, num_rows).tolist(), random.integers(0, 20, num_rows).tolist()
    columns = {
        "user": _lists([f"u{user}".encode() for user in users], pa.binary()),
        "item": _lists(items, pa.int64()),
        "price": _lists([item / 4 if item else None for item in items], pa.float32()),
        "genres": _lists([[b"drama", str(item % 5).encode()] if item % 3 else [] for item in items], pa.binary()),
        "age": _lists([user % 7 for user in users], pa.int64()),
        "hour": _lists([place // 60 for place in range(num_rows)], pa.int64()),
        "constant": _lists([1] * num_rows, pa.int64()),
        "paid": _lists([item / 4 + user % 3 for item, user in zip(items, users, strict=True)], pa.float32()),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def test_columns_of_the_item_are_found_and_no_others() -> None:
    counts = []
    for seed in range(3):
        batch = _batch(300, seed)
        names = [name for name in batch.schema.names if name not in ("user", "item")]
        counts.append(count_pairs(batch, keys_of(batch, _NEGATIVES, None), names))
    assert undeclared(counts) == ["genres", "price"]
    assert undeclared([]) == []


def test_rows_of_one_user_are_no_pairs() -> None:
    batch = _batch(300, 1)
    of_one = batch.set_column(0, "user", _lists([b"u"] * 300, pa.binary()))
    assert count_pairs(of_one, keys_of(of_one, _NEGATIVES, None), ["price"])["pairs"] == 0
