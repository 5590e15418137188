from pathlib import Path

import pytest

from sangam.components.logs.files.local_files import LocalStorage
from sangam.components.logs.files.resolve import resolve
from sangam.pipelines.drafting.layout import layout_of
from sangam.schemas.errors import UserError
from tests.components.logs.sample_logs import day_logs
from tests.errors import place_and_value

DAYS = ("2024-02-28", "2024-02-29", "2024-03-01")
LOGS = {
    "Delta Lake": "_delta_log/00000000000000000000.json",
    "Apache Iceberg": "metadata/v1.metadata.json",
    "Apache Hudi": ".hoodie/hoodie.properties",
}

SPARK = {"Delta Lake": "delta", "Apache Iceberg": "iceberg", "Apache Hudi": "hudi"}


def files(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")


@pytest.mark.parametrize("table", [name for name in LOGS if SPARK[name] != "delta"])
def test_a_folder_of_a_table_format_is_refused_by_a_run_and_a_draft_with_the_same_advice(
    tmp_path: Path, table: str
) -> None:
    root = tmp_path / "logs [1]"
    files(root, LOGS[table], *(f"{day}/part.parquet" for day in DAYS))
    expected = place_and_value(str(root), f"(got {root}/{LOGS[table]}) ... spark.read.format('{SPARK[table]}')")
    with pytest.raises(UserError, match=expected) as of_run:
        resolve(day_logs(), DAYS[-1], str(root), LocalStorage())
    with pytest.raises(UserError) as of_draft:
        layout_of(root)
    assert str(of_draft.value) == str(of_run.value)


def test_a_run_by_day_of_delta_lake_is_told_how_to_declare_the_table(tmp_path: Path) -> None:
    files(tmp_path, "orders/_delta_log/0.json", *(f"orders/{day}/part.parquet" for day in DAYS))
    with pytest.raises(UserError, match=place_and_value(f"{tmp_path}/orders", "_delta_log/0.json) ... format: delta")):
        resolve(day_logs(), DAYS[-1], f"{tmp_path}/orders", LocalStorage())


def test_a_data_folder_inside_a_table_and_a_table_for_each_day_are_refused(tmp_path: Path) -> None:
    files(tmp_path, "table/metadata/v1.metadata.json", *(f"table/data/{day}/part.parquet" for day in DAYS))
    with pytest.raises(UserError, match=place_and_value(f"{tmp_path}/table", "metadata/v1.metadata.json")):
        resolve(day_logs(), DAYS[-1], str(tmp_path / "table/data"), LocalStorage())
    files(tmp_path, *(f"days/{day}/{name}" for day in DAYS for name in ("part.parquet", "_delta_log/0.json")))
    with pytest.raises(UserError, match=place_and_value(f"{tmp_path}/days/2024-02-28", "_delta_log/0.json")):
        resolve(day_logs(), DAYS[-1], str(tmp_path / "days"), LocalStorage())


def test_plain_parquet_and_other_formats_beside_a_log_of_a_table_are_read(tmp_path: Path) -> None:
    files(tmp_path, "_delta_log/0.json", *(f"logs/{day}/part.csv" for day in DAYS))
    assert len(resolve(day_logs("csv"), DAYS[-1], str(tmp_path / "logs"), LocalStorage()).files) == 3
    files(tmp_path, "other/_delta_log/0.json", *(f"plain/{day}/part.parquet" for day in DAYS))
    (tmp_path / "_delta_log/0.json").unlink()
    assert len(resolve(day_logs(), DAYS[-1], str(tmp_path / "plain"), LocalStorage()).files) == 3
