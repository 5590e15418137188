"""Columns that only the names of folders hold."""

from pathlib import Path
from typing import Any

import pytest

from sangam.components.logs.readers import formats
from sangam.components.logs.rows.conversion import convert
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column
from sangam.schemas.spec.data import DayLogs
from tests.components.logs.sample_logs import day_logs, write
from tests.errors import tells

FORMATS = ["parquet", "csv", "tfrecord"]
N = Column("n", "int", is_required=False)
COUNTRY = Column("country", "string", is_required=False)


def logs(format_name: str, folders: str = "country=*") -> DayLogs:
    return day_logs(format_name, pattern=f"{{YYYY}}-{{MM}}-{{DD}}/{folders}/*")


def a_file(root: Path, folder: str, format_name: str, **more: Any) -> Path:
    (root / folder).mkdir(parents=True)
    # Parquet's writer takes no path that is not UTF-8.
    return write(root / "part", format_name, [{"n": 1, **more}, {"n": 2, **more}]).rename(root / folder / "part")


def read(of: DayLogs, path: Path, wanted: list[Column]) -> list[dict[str, list[Any]]]:
    with path.open("rb") as file:
        assert formats.inspect(of, file, str(path), wanted).problems == ()
        file.seek(0)
        [rows] = formats.read(of, file, str(path), wanted)
    assert rows.absent == frozenset()
    found = convert(rows.batch, wanted, str(path)).batch.to_pylist()
    return [{name: values or [] for name, values in row.items()} for row in found]


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize(
    ("folder", "value"),
    [
        ("country=IN", [b"IN"]),
        ("country=a%2Fb%3D c", [b"a/b= c"]),
        ("country=\udcff", [b"\xff"]),
        ("country=__HIVE_DEFAULT_PARTITION__", []),
        ("country=", []),
    ],
)
def test_a_folder_gives_its_value_to_every_row(
    tmp_path: Path, format_name: str, folder: str, value: list[bytes]
) -> None:
    path = a_file(tmp_path / "2024-03-01", folder, format_name)
    assert read(logs(format_name), path, [N, COUNTRY]) == [
        {"n": [1], "country": value},
        {"n": [2], "country": value},
    ]


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_number_in_a_folder_is_a_number(tmp_path: Path, format_name: str) -> None:
    path = a_file(tmp_path, "hour=07/share=0.5", format_name)
    wanted = [N, Column("hour", "int"), Column("share", "float")]
    assert read(logs(format_name, "hour=*/share=*"), path, wanted)[0] == {"n": [1], "hour": [7], "share": [0.5]}


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_column_of_the_file_wins(tmp_path: Path, format_name: str) -> None:
    path = a_file(tmp_path, "country=IN", format_name, country="US")
    assert read(logs(format_name), path, [N, COUNTRY])[0] == {"n": [1], "country": [b"US"]}


@pytest.mark.parametrize("format_name", ["parquet", "csv"])
@pytest.mark.parametrize(
    ("column", "pattern", "told"),
    [
        (COUNTRY, "*", "country=IN ... write country=* into the pattern"),
        (Column("country", "int"), "country=*", "not an int (got country=IN)"),
        (Column("country", "string", is_list=True), "country=*", "one value ... list"),
        (Column("city", "string"), "country=*", "is missing (got n)"),
    ],
)
def test_a_folder_that_cannot_give_a_column_is_named_before_the_run_and_while_reading(
    tmp_path: Path, format_name: str, column: Column, pattern: str, told: str
) -> None:
    path = a_file(tmp_path, "country=IN", format_name)
    with path.open("rb") as file:
        [problem] = formats.inspect(logs(format_name, pattern), file, str(path), [N, column]).problems
        assert tells(problem, str(path), f"column '{column.name}' ... {told}")
        file.seek(0)
        with pytest.raises(UserError) as refused:
            list(formats.read(logs(format_name, pattern), file, str(path), [N, column]))
    assert str(refused.value) == problem
