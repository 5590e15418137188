"""Ids that come again on a later day, mostly new ones, and those that never return: in whole logs and in samples."""

import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sangam.pipelines.drafting import Draft, draft, earlier_days
from sangam.pipelines.drafting.sample import MAX_ROWS
from sangam.pipelines.synthetic.files import write_table
from sangam.schemas.errors import UserError
from sangam.schemas.spec.patterns import FileFormat
from tests.errors import mentions, place_and_value
from tests.pipelines.drafting.sample_logs import left_out, valid

pytestmark = pytest.mark.slow

DAYS, FEW, MANY = 3, 1200, 3 * MAX_ROWS // 2
"""Days, and rows of a day: all are read of the one, a fifth of the other."""


def logs(folder: Path, rows: int, file_format: FileFormat = "parquet") -> Path:
    """Writes logs whose newest day has 10 % rows of items, users and their towns of earlier days, 0.5 % of sessions,
    none of orders and visitors, and all of posts. The first third of the rows has other posts each day."""
    row = np.arange(rows)
    for day in range(DAYS):
        new = rows * (day + 1)
        users = np.where(row % 10 == 0, row % 50, new + row // 20)
        columns = {
            "clicked": (row * 7919 + day) % 11 < 4,
            "user_id": users,
            "town_id": users // 2,
            "post_id": (row + day * rows // 3) % rows,
            "item_id": np.where(row % 10 == 0, row % 50, new + row // 2),
            "session_id": np.where(row % 200 == 0, row % 7, new + row // 2),
            "order_id": [f"o{new + each // 3}" for each in row.tolist()],
            "visitor_id": new + row // 4,
        }
        of_day = folder / str(datetime.date(2024, 3, 1) + datetime.timedelta(days=day))
        of_day.mkdir(parents=True)
        write_table(pa.table(columns), of_day, file_format)
    return folder


def kept(made: Draft) -> dict[str, str]:
    """Returns the reasons of features, by column."""
    return {each.column: each.why for each in made.guesses.features}


@pytest.mark.parametrize(("rows", "file_format"), [(FEW, "parquet"), (MANY, "parquet"), (MANY, "csv")])
def test_ids_that_never_return_are_left_out_and_mostly_new_ones_marked(
    tmp_path: Path, rows: int, file_format: FileFormat
) -> None:
    made = draft(logs(tmp_path, rows, file_format), "small", ["clicked"])
    document, features = valid(made), kept(made)
    assert set(document["features"]) == {"user", "town", "post", "item"}
    assert all(mentions(features[name], "mostly new: 10.") for name in ("item_id", "user_id", "town_id"))
    assert [name for name, table in document["tables"].items() if table.get("unseen") == "auto"] == ["items"]
    assert "new" not in features["post_id"]
    shares = {"session_id": "0.", "order_id": "0.0%", "visitor_id": "0.0%"}
    assert {name: mentions(why, shares[name]) for name, why in left_out(made).items()} == dict.fromkeys(shares, True)
    # As a feature and a table, to be taken in.
    assert "\n  # order: {kind: id, column: order_id" in made.text
    assert "\n  # orders: {dim: 8}" in made.text


def test_nothing_is_known_of_ids_where_most_of_the_day_before_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(earlier_days, "MOST_ROWS", MANY - 1)
    made = draft(logs(tmp_path, MANY), "small", ["clicked"])
    assert {"order_id", "visitor_id", "session_id", "post_id", "item_id"} <= set(kept(made))
    assert "mostly" not in made.text


def test_a_damaged_file_of_an_earlier_day_is_told(tmp_path: Path) -> None:
    folder = logs(tmp_path, MANY)
    [file] = (folder / "2024-03-02").glob("*.parquet")
    (folder / "2024-03-02" / "part-1.parquet").write_bytes(file.read_bytes()[:-9])
    with pytest.raises(UserError, match=place_and_value(f"{folder}/2024-03-02/part-1.parquet", "")):
        draft(folder, "small", ["clicked"])
