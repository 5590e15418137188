"""How the files of a folder lie: every way to write a day, splits by name, and what no spec describes."""

from pathlib import Path

import pytest

from sangam.pipelines.drafting.layout import layout_of
from sangam.schemas.errors import UserError
from tests.errors import place_and_value


def files(folder: Path, *paths: str) -> Path:
    for path in paths:
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
    return folder


@pytest.mark.parametrize(
    ("paths", "pattern"),
    [
        (("2024-03-01/a.parquet", "2024-03-02/b.parquet"), "{YYYY}-{MM}-{DD}/*.parquet"),
        (("dt=20240301/a.snappy.parquet", "dt=20240302/b.parquet"), "dt={YYYY}{MM}{DD}/*.parquet"),
        (
            ("year=2024/month=03/day=01/a.csv.gz", "year=2024/month=03/day=02/a.csv.gz"),
            "year={YYYY}/month={MM}/day={DD}/*.csv.gz",
        ),
        (
            ("year=2024/month=3/day=1/a.csv", "year=2024/month=10/day=12/a.csv"),
            "year={YYYY}/month={M}/day={D}/*.csv",
        ),
        (
            ("dt=2024-03-01/country=IN/a.csv", "dt=2024-03-02/country=IT/b.csv"),
            "dt={YYYY}-{MM}-{DD}/country=*/*.csv",
        ),
        (("2024/03/01/05/a.csv", "2024/03/02/06/b.csv"), "{YYYY}/{MM}/{DD}/*/*.csv"),
        (("2024/03/01.csv", "2024/03/02.csv"), "{YYYY}/{MM}/{DD}.csv"),
        (("events_20240301.csv", "events_20240302.csv"), "events_{YYYY}{MM}{DD}.csv"),
        (("events_2024030105.csv", "events_2024030206.csv"), "events_{YYYY}{MM}{DD}*.csv"),
        (("a_2024.03.01.csv", "b_2024.03.02.csv"), "*{YYYY}.{MM}.{DD}.csv"),
        (("13-03-2024/a.csv", "14-03-2024/a.csv"), "{DD}-{MM}-{YYYY}/*.csv"),
        (("03-01-2024/a.csv", "03-22-2024/a.csv"), "{MM}-{DD}-{YYYY}/*.csv"),
        (("eu/2024-03-01/a.csv", "us/2024-03-02/a.csv"), "*/{YYYY}-{MM}-{DD}/*.csv"),
        (
            ("2024-03-01/x.tfrecord-00000-of-00002.gz", "2024-03-02/x.tfrecord-00001-of-00002.gz"),
            "{YYYY}-{MM}-{DD}/*.tfrecord-*.gz",
        ),
        (("[a]/2024-03-01/a.csv", "[a]/2024-03-02/a.csv"), "[[]a]/{YYYY}-{MM}-{DD}/*.csv"),
    ],
)
def test_days_in_paths(tmp_path: Path, paths: tuple[str, ...], pattern: str) -> None:
    layout = layout_of(files(tmp_path, *paths))
    assert layout.is_by_day
    assert layout.patterns == {"days": pattern}
    assert len(layout.days) == 2
    assert not layout.note


def test_a_day_and_a_month_that_can_be_exchanged_are_pointed_out(tmp_path: Path) -> None:
    layout = layout_of(files(tmp_path, "01-03-2024/a.csv", "02-03-2024/a.csv"))
    assert layout.patterns == {"days": "{DD}-{MM}-{YYYY}/*.csv"}
    assert layout.note


@pytest.mark.parametrize(
    ("paths", "patterns"),
    [
        (("train/a.csv", "test/a.csv"), {"train": "train/*.csv", "eval": "test/*.csv"}),
        (("train.csv", "eval.csv"), {"train": "train.csv", "eval": "eval.csv"}),
        (("adult_train.csv", "adult_val.csv"), {"train": "adult_train.csv", "eval": "adult_val.csv"}),
        (
            ("train-00000-of-00002.parquet", "train-00001-of-00002.parquet", "test-00000-of-00001.parquet"),
            {"train": "train-*.parquet", "eval": "test-00000-of-00001.parquet"},
        ),
        (
            ("split=train/1/p.csv", "split=train/2/p.csv", "split=valid/1/p.csv", "split=test/1/p.csv"),
            {"train": "split=train/*/*.csv", "validation": "split=valid/1/*.csv", "eval": "split=test/1/*.csv"},
        ),
    ],
)
def test_splits_by_their_names(tmp_path: Path, paths: tuple[str, ...], patterns: dict[str, str]) -> None:
    layout = layout_of(files(tmp_path, *paths))
    assert layout.patterns == patterns
    assert sum(map(len, layout.groups.values())) == len(paths)


def test_what_ingestion_skips_is_not_there(tmp_path: Path) -> None:
    paths = (
        "2024-03-01/a.csv",
        "2024-03-01/_SUCCESS",
        "2024-03-02/a.csv",
        "2024-03-02/.b.csv",
        "_old/c.parquet",
        "x.md",
    )
    assert [file.path for file in layout_of(files(tmp_path, *paths)).files] == ["2024-03-01/a.csv", "2024-03-02/a.csv"]


@pytest.mark.parametrize(
    ("paths", "value"),
    [
        ((), "(got no files)"),
        (("notes.txt",), "(got notes.txt)"),
        (("2024-03-01/a.csv", "2024-03-02/b.parquet"), "(got 1 parquet, 1 csv)"),
        (("a.avro",), "(got a.avro) ... Parquet"),
        (("2024-03-01/a.csv", "2024_03_02/a.csv"), "(got 2024-03-01/a.csv, 2024_03_02/a.csv)"),
        (("2024-03-01/a.csv", "2024-03-02/x/a.csv"), "(got DATE/a.csv, DATE/x/a.csv)"),
        (("2024-03-01/a.csv", "items/a.csv"), "(got items/a.csv)"),
        (("test.csv",), "(got test.csv)"),
        (("a_train.csv", "b_train.csv", "a_test.csv"), "(got "),
    ],
)
def test_what_no_spec_describes_is_told(tmp_path: Path, paths: tuple[str, ...], value: str) -> None:
    with pytest.raises(UserError, match=place_and_value(str(tmp_path), value)):
        layout_of(files(tmp_path, *paths))


def test_a_folder_that_is_none_is_told(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    with pytest.raises(UserError, match=place_and_value(str(file), "no such folder")):
        layout_of(file)


@pytest.mark.parametrize(
    ("paths", "pattern"),
    [
        (("orders.csv",), "orders.csv"),
        (("part-0.parquet", "part-1.parquet"), "part-*.parquet"),
        (("2024-03-01.csv",), "2024-03-01.csv"),
        (("country=IN/a.parquet", "country=US/a.parquet"), "country=*/a.parquet"),
        (("train.csv",), "train.csv"),
        (("24-3-1/a.csv", "24-3-2/a.csv"), "*/a.csv"),
    ],
)
def test_files_without_several_days_are_one_table(tmp_path: Path, paths: tuple[str, ...], pattern: str) -> None:
    layout = layout_of(files(tmp_path, *paths))
    assert dict(layout.patterns) == {"table": pattern}
    assert [file.path for file in layout.files] == sorted(paths)
    assert not layout.is_by_day


def test_a_file_is_a_table_in_the_folder_around_it(tmp_path: Path) -> None:
    layout = layout_of(files(tmp_path, "a.csv", "b.csv") / "a.csv")
    assert (layout.root, dict(layout.patterns)) == (str(tmp_path), {"table": "a.csv"})
