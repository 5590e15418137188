"""A table's rows are written by day or split once, and again only where they have changed."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from sangam.components.logs.files.storage import TfxStorage
from sangam.components.logs.request import Request
from sangam.components.logs.tables import parts
from sangam.components.logs.tables.parts import with_parts, with_version
from sangam.components.logs.tables.writing import PartsWriter
from sangam.schemas.derived.columns import columns
from sangam.schemas.errors import UserError
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.data import DayLogs, TableLogs
from tests.errors import place_and_value

pytestmark = pytest.mark.slow

INPUTS = Inputs.model_validate(
    {
        "features": {"user": {"kind": "id", "type": "string", "table": "users"}, "price": {"kind": "numeric"}},
        "tasks": {"bought": {"kind": "binary"}},
    }
)
_FORMS = {"at": {"kind": "time"}, "bought": {"kind": "codes", "values": {"yes": 1, "no": 0}}}


def _request(folder: Path, date: str = "2024-03-03", **fields: Any) -> Request:
    table = TableLogs.model_validate(
        {
            "kind": "table",
            "format": "csv",
            "pattern": "*.csv",
            "time": "at",
            "columns": _FORMS,
            "eval": {"days": 1},
            **fields,
        }
    )
    return Request(
        logs=table.parts,
        inputs=INPUTS,
        columns=tuple(columns(INPUTS)),
        date=date,
        data_root=str(folder / "logs"),
        name="shop",
        mode="full",
        pipeline_root=str(folder / "root"),
        table=table,
    )


def _write(folder: Path, lines: list[str], name: str = "orders.csv") -> None:
    (folder / "logs").mkdir(exist_ok=True)
    (folder / "logs" / name).write_text("\n".join(["at,user,price,bought", *lines]) + "\n")


_LINES = [
    f"2024-03-0{1 + number % 3} 10:00:00,u{number % 4},{number},{'yes' if number % 2 else 'no'}" for number in range(30)
]


def _contents(request: Request) -> dict[str, str]:
    folder = Path(request.data_root)
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*.parquet")
    }


def test_a_table_becomes_days(tmp_path: Path) -> None:
    _write(tmp_path, _LINES)
    request = with_parts(_request(tmp_path), TfxStorage())
    assert isinstance(request.logs, DayLogs)
    # All days before the date, and no more: no day is missing.
    assert (request.logs.train_days, request.logs.eval_days) == (2, 1)
    rows = pq.read_table(f"{request.data_root}/2024-03-02/part-00000.parquet").to_pylist()
    assert [row["price"] for row in rows] == [float(number) for number in range(1, 30, 3)]
    assert rows[0] == {"user": b"u1", "price": 1.0, "bought": 1.0}


def test_a_table_that_grows_is_written_again_and_its_earlier_days_are_equal(tmp_path: Path) -> None:
    _write(tmp_path, _LINES)
    before = with_parts(_request(tmp_path), TfxStorage())
    assert with_parts(_request(tmp_path), TfxStorage()) == before
    _write(tmp_path, [*_LINES, "2024-03-04 00:00:00,u9,1,no"])
    after = with_parts(_request(tmp_path, "2024-03-04"), TfxStorage())
    assert after.data_root != before.data_root
    new = _contents(after)
    assert new.pop("2024-03-04/part-00000.parquet")
    assert new == _contents(before)


def test_a_table_is_split_without_days(tmp_path: Path) -> None:
    _write(tmp_path, _LINES)
    request = _request(tmp_path, date="", time=None, by="user", eval={"fraction": 0.3})
    made = with_parts(replace(request, columns=tuple(columns(INPUTS))), TfxStorage())
    assert {path.split("/")[0] for path in _contents(made)} <= {"train", "eval"}
    [note] = made.notes
    assert "drawn by user" in note


def test_times_and_keys_may_be_narrow_integers(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    rows = pa.table(
        {
            "at": pa.array([1_709_294_400 + 3600 * each for each in range(60)], pa.int32()),
            "user": [f"u{each % 9}" for each in range(60)],
            "price": pa.array(range(60), pa.float32()),
            "bought": pa.array([each % 2 for each in range(60)], pa.int8()),
            "shop": pa.array([each % 20 for each in range(60)], pa.int16()),
        }
    )
    pq.write_table(rows, tmp_path / "logs" / "a.parquet")
    parquet: dict[str, Any] = {"format": "parquet", "pattern": "a.parquet", "columns": {}}
    by_time = with_parts(_request(tmp_path, **parquet), TfxStorage())
    assert {path.split("/")[0] for path in _contents(by_time)} == {"2024-03-01", "2024-03-02", "2024-03-03"}
    by_shop = _request(tmp_path, date="", **parquet, time=None, by="shop", eval={"fraction": 0.5})
    assert {path.split("/")[0] for path in _contents(with_parts(by_shop, TfxStorage()))} == {"train", "eval"}


def test_rows_without_a_time_are_told_and_too_many_stop_the_run(tmp_path: Path) -> None:
    _write(tmp_path, [*_LINES, ",u1,1,no"])
    with pytest.raises(UserError, match=place_and_value(f"{tmp_path}/logs/*.csv", "1 of 31 rows")):
        with_parts(_request(tmp_path), TfxStorage())
    made = with_parts(_request(tmp_path, max_dropped_fraction=0.1), TfxStorage())
    [note] = made.notes
    assert "no time in column 'at'" in note


@pytest.mark.parametrize(
    ("line", "place", "value"),
    [
        ("2024-03-03,u1,1,maybe", "column 'bought'", "(got 'maybe')"),
        ("yesterday,u1,1,no", "column 'at'", "(got 'yesterday')"),
        ("2024-03-03,u1,cheap,no", "line 32: column 'price'", "(got 'cheap')"),
    ],
)
def test_a_mistake_names_the_file_of_the_table_and_leaves_nothing(
    tmp_path: Path, line: str, place: str, value: str
) -> None:
    _write(tmp_path, [*_LINES, line])
    with pytest.raises(UserError, match=place_and_value(f"{tmp_path}/logs/orders.csv: {place}", value)):
        with_parts(_request(tmp_path), TfxStorage())
    assert not list((tmp_path / "root" / "tables" / "shop").iterdir())


def test_two_files_with_the_same_rows_are_refused_and_days_with_the_same_rows_are_not(tmp_path: Path) -> None:
    _write(tmp_path, ["2024-03-01,u1,1,no", "2024-03-02,u1,1,no", "2024-03-03,u1,1,no"])
    made = with_parts(_request(tmp_path), TfxStorage())
    assert len(set(_contents(made).values())) == 1
    _write(tmp_path, ["2024-03-01,u1,1,no", "2024-03-02,u1,1,no", "2024-03-03,u1,1,no"], "again.csv")
    with pytest.raises(UserError, match=place_and_value(f"{tmp_path}/logs/orders.csv", "again.csv ... equal_files")):
        with_parts(_request(tmp_path), TfxStorage())


def test_a_run_reads_one_version_of_a_delta_table_whatever_is_written_meanwhile(tmp_path: Path) -> None:
    rows = [{"at": f"2024-03-0{day} 10:00:00", "user": "u1", "price": 1.0, "bought": "no"} for day in (1, 2, 3)]
    for row in rows:
        write_deltalake(tmp_path / "logs" / "orders", pa.Table.from_pylist([row]), mode="append")
    pinned = with_version(_request(tmp_path, format="delta", pattern="orders"))
    DeltaTable(tmp_path / "logs" / "orders").delete("at < '2024-03-02'")
    made = with_parts(pinned, TfxStorage())
    assert {path.split("/")[0] for path in _contents(made)} == {"2024-03-01", "2024-03-02", "2024-03-03"}
    assert [note for note in made.notes if "version 2 of the Delta Lake table" in note]
    newest = with_parts(with_version(_request(tmp_path, format="delta", pattern="orders")), TfxStorage())
    assert {path.split("/")[0] for path in _contents(newest)} == {"2024-03-02", "2024-03-03"}


def test_a_date_without_rows_names_the_days_that_have_some(tmp_path: Path) -> None:
    _write(tmp_path, _LINES)
    with pytest.raises(UserError, match=place_and_value("date", "(got 2024-03-09; it has rows from 2024-03-01")):
        with_parts(_request(tmp_path, "2024-03-09"), TfxStorage())


def test_only_the_newest_contents_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_MOST_KEPT", 2)
    for number in range(4):
        _write(tmp_path, [*_LINES, *[f"2024-03-03,u1,{number},no"] * (number + 1)])
        newest = with_parts(_request(tmp_path), TfxStorage())
    root = tmp_path / "root" / "tables" / "shop"
    assert len(list(root.glob("*.json"))) == 2
    assert len([path for path in root.iterdir() if path.is_dir()]) == 2
    assert Path(newest.data_root).is_dir()


def test_many_parts_are_written_in_bounded_memory_in_the_order_of_the_rows(tmp_path: Path) -> None:
    writer = PartsWriter(str(tmp_path), rows_of_file=10, most_rows=25)
    names = pa.array([f"d{number % 7}" for number in range(200)])
    for start in range(0, 200, 20):
        batch = pa.record_batch({"n": pa.array(range(start, start + 20))})
        writer.add(batch, names[start : start + 20].to_numpy(zero_copy_only=False))
    writer.finish()
    for day in range(7):
        files = sorted((tmp_path / f"d{day}").iterdir())
        rows = [row["n"] for file in files for row in pq.read_table(file).to_pylist()]
        assert rows == list(range(day, 200, 7))
        assert all(pq.read_metadata(file).num_rows <= 10 for file in files)
