"""Days of logs on disk: whole or not there, never changed in silence, equal in every format."""

import datetime
import hashlib
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet
import pytest

from sangam.pipelines.synthetic import generate
from sangam.schemas.errors import UserError
from tests.errors import place_and_value

FIRST_DAY = datetime.date(2023, 12, 31)
SMALL = {"rows_per_day": 300, "num_users": 50, "num_posts": 60, "seed": 3}


def _generate(output: Path, num_days: int = 2, **changes: Any) -> list[Path]:
    return generate(output, first_day=FIRST_DAY, num_days=num_days, **(SMALL | changes))


def _digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_each_day_is_a_folder_with_a_marker_and_nothing_else_is_left(tmp_path: Path) -> None:
    folders = _generate(tmp_path)
    assert [folder.name for folder in folders] == ["2023-12-31", "2024-01-01"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2023-12-31", "2024-01-01"]
    for folder in folders:
        assert sorted(path.name for path in folder.iterdir()) == ["_SUCCESS", "part-00000.parquet"]


@pytest.mark.parametrize("file_format", ["parquet", "csv"])
def test_same_seed_makes_the_same_bytes_whatever_the_number_of_days(tmp_path: Path, file_format: str) -> None:
    _generate(tmp_path / "two", num_days=2, file_format=file_format)
    _generate(tmp_path / "three", num_days=3, file_format=file_format)
    two, three = _digests(tmp_path / "two"), _digests(tmp_path / "three")
    assert len(three) == 6
    assert two == {name: three[name] for name in two}


def test_progress_is_told_after_each_day(tmp_path: Path) -> None:
    told: list[tuple[datetime.date, int]] = []
    _generate(tmp_path, progress=lambda day, rows: told.append((day, rows)))
    assert told == [(datetime.date(2023, 12, 31), 300), (datetime.date(2024, 1, 1), 300)]


def test_a_second_call_changes_nothing_and_mends_a_missing_marker(tmp_path: Path) -> None:
    folder = _generate(tmp_path)[0]
    before, time_ns = _digests(tmp_path), (folder / "part-00000.parquet").stat().st_mtime_ns
    (folder / "_SUCCESS").unlink()
    _generate(tmp_path)
    assert _digests(tmp_path) == before
    assert (folder / "part-00000.parquet").stat().st_mtime_ns == time_ns


def test_other_logs_are_not_overwritten_unless_asked(tmp_path: Path) -> None:
    _generate(tmp_path)
    before = _digests(tmp_path)
    with pytest.raises(UserError, match=place_and_value("2023-12-31", "(got _SUCCESS, part-00000.parquet)")):
        _generate(tmp_path, seed=4)
    assert _digests(tmp_path) == before
    _generate(tmp_path, seed=4, overwrite=True)
    _generate(tmp_path / "fresh", seed=4)
    after = {name: digest for name, digest in _digests(tmp_path).items() if not name.startswith("fresh/")}
    assert after == _digests(tmp_path / "fresh")


def test_an_empty_folder_of_a_day_is_filled(tmp_path: Path) -> None:
    (tmp_path / "2023-12-31").mkdir()
    _generate(tmp_path)
    assert (tmp_path / "2023-12-31" / "_SUCCESS").exists()


@pytest.mark.parametrize(
    ("changes", "place", "value"),
    [
        ({"num_days": 0}, "days", "(got 0)"),
        ({"rows_per_day": 0}, "rows per day", "(got 0)"),
        ({"num_users": -1}, "users", "(got -1)"),
        ({"num_posts": 0}, "posts", "(got 0)"),
        ({"seed": -1}, "seed", "(got -1) ... 0"),
        ({"drift": -0.5}, "drift", "(got -0.5)"),
        ({"drift": 25.0}, "drift", "(got 25.0) ... 24"),
        ({"drift": float("nan")}, "drift", "(got nan)"),
        ({"num_days": 10**8}, "days", "9999"),
    ],
)
def test_sizes_that_make_no_logs_are_refused(tmp_path: Path, changes: dict[str, Any], place: str, value: str) -> None:
    with pytest.raises(UserError, match=place_and_value(place, value)):
        _generate(tmp_path, **changes)


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "2023-12-31").write_text("")
    with pytest.raises(UserError, match="2023-12-31: is a file"):
        _generate(tmp_path)
    with pytest.raises(UserError, match=place_and_value("...", "folder of the logs")):
        _generate(tmp_path / "2023-12-31")


def test_one_row_of_one_user_and_one_post_is_enough(tmp_path: Path) -> None:
    folders = _generate(tmp_path, num_days=3, rows_per_day=1, num_users=1, num_posts=1)
    assert [pyarrow.parquet.read_table(folder / "part-00000.parquet").num_rows for folder in folders] == [1, 1, 1]


def test_csv_holds_what_parquet_holds(tmp_path: Path) -> None:
    expected = pyarrow.parquet.read_table(_generate(tmp_path / "parquet")[1] / "part-00000.parquet")
    types = {field.name: field.type for field in expected.schema if not pyarrow.types.is_list(field.type)}
    options = pyarrow.csv.ConvertOptions(
        column_types=types | {"hashtags": pyarrow.string(), "recent_posts": pyarrow.string()}, strings_can_be_null=True
    )
    path = _generate(tmp_path / "csv", file_format="csv")[1] / "part-00000.csv"
    rows = pyarrow.csv.read_csv(path, convert_options=options).to_pylist()
    for row in rows:
        row["hashtags"] = row["hashtags"].split("|") if row["hashtags"] else []
        row["recent_posts"] = [int(post) for post in row["recent_posts"].split("|")] if row["recent_posts"] else []
    assert rows == expected.to_pylist()


@pytest.mark.slow
def test_tfrecord_holds_what_parquet_holds(tmp_path: Path) -> None:
    import tensorflow as tf

    expected = pyarrow.parquet.read_table(_generate(tmp_path / "parquet")[1] / "part-00000.parquet").to_pylist()
    path = _generate(tmp_path / "tfrecord", file_format="tfrecord")[1] / "part-00000.tfrecord"
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    assert len(records) == len(expected)
    for record, row in zip(records, expected, strict=True):
        features = tf.train.Example.FromString(record).features.feature
        assert set(features) == {name for name, value in row.items() if value is not None}
        for name, feature in features.items():
            values = list(getattr(feature, feature.WhichOneof("kind")).value)
            wanted = row[name] if isinstance(row[name], list) else [row[name]]
            if isinstance(wanted[0] if wanted else None, float):
                assert values == pytest.approx(wanted, rel=1e-6)
            else:
                assert [value.decode() if isinstance(value, bytes) else value for value in values] == wanted
