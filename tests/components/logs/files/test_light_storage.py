"""Logs on an S3 server: listed and read as those on this machine."""

import datetime
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sangam.components.logs.files.light_storage import LightStorage, open_light
from sangam.components.logs.files.listing import FileFacts
from sangam.components.logs.files.resolve import resolve
from sangam.components.logs.tables.files import days_with_rows, files_of
from sangam.components.object_stores import s3_settings
from sangam.schemas.errors import UserError
from sangam.schemas.spec.data import DayLogs, TableLogs
from tests.errors import place_and_value
from tests.object_stores import Bucket

_ODD = "a [1] %20 ü+?=.csv"


def _matched(pattern: str) -> list[str]:
    [found] = LightStorage().match([pattern])
    assert all(each.facts and not each.problem for each in found)
    return [each.path for each in found]


def test_wildcards_match_within_one_part_of_a_key(bucket: Bucket) -> None:
    for key in ("01/a.csv", "01/b.csv", "02/a.csv", "02/deep/a.csv", "", "03/"):
        bucket.put(f"logs/{key}", b"a" if key.endswith("csv") else b"")
    root = bucket.uri
    assert _matched(f"{root}/logs/*/a.csv") == [f"{root}/logs/01/a.csv", f"{root}/logs/02/a.csv"]
    assert _matched(f"{root}/logs/0[13]/?.csv") == [f"{root}/logs/01/a.csv", f"{root}/logs/01/b.csv"]
    assert _matched(f"{root}/logs/02/*") == [f"{root}/logs/02/a.csv"]
    assert _matched(f"{root}/*/*/*/a.csv") == [f"{root}/logs/02/deep/a.csv"]
    assert _matched(f"{root}/logs/01/b.csv") == [f"{root}/logs/01/b.csv"]
    assert _matched(f"{root}/logs/01") == _matched(f"{root}/nothing/*") == _matched(f"{root}/logs/03/*") == []


def test_a_key_of_any_characters_is_listed_and_read(bucket: Bucket) -> None:
    bucket.put(f"b [0]/{_ODD}", b"n\n1\n")
    [path] = _matched(f"{bucket.uri}/b [[]0]/a [[]*.csv")
    assert path == f"{bucket.uri}/b [0]/{_ODD}"
    with open_light(path) as file:
        assert (file.read(2), file.seek(0), file.read()) == (b"n\n", 0, b"n\n1\n")


def test_size_and_time_of_an_object_show_a_change(bucket: Bucket) -> None:
    bucket.put("a.csv", b"12345")
    [[listed]] = LightStorage().match([f"{bucket.uri}/*.csv"])
    now_ns = datetime.datetime.now(datetime.UTC).timestamp() * 1e9
    assert isinstance(listed.facts, FileFacts)
    assert listed.facts.size_bytes == 5
    assert abs(listed.facts.mtime_ns - now_ns) < 60e9
    assert LightStorage().match([f"{bucket.uri}/a.csv"]) == [[listed]]


def test_the_days_of_logs_are_found_without_markers(bucket: Bucket) -> None:
    for day in ("2024-03-01", "2024-03-02", "2024-03-03"):
        bucket.put(f"logs/{day}/part.csv", b"n\n1\n")
        bucket.put(f"logs/{day}/_SUCCESS")
    logs = DayLogs.model_validate({"kind": "days", "format": "csv", "pattern": "{YYYY}-{MM}-{DD}/*", "train_days": 2})
    files = resolve(logs, "2024-03-03", f"{bucket.uri}/logs", LightStorage()).files
    assert [file.path.removeprefix(bucket.uri) for file in files] == [f"/logs/2024-03-0{n}/part.csv" for n in (1, 2, 3)]


@pytest.mark.parametrize("file_format", ["parquet", "csv", "jsonl"])
def test_the_rows_of_a_table_are_read(bucket: Bucket, tmp_path: Path, file_format: str) -> None:
    rows: list[dict[str, Any]] = [{"at": 1_709_251_200 + 86_400 * day, "n": day} for day in range(3)]
    path = tmp_path / f"rows.{file_format}"
    match file_format:
        case "parquet":
            pq.write_table(pa.Table.from_pylist(rows), path)
        case "csv":
            path.write_text("at,n\n" + "".join(f"{row['at']},{row['n']}\n" for row in rows))
        case "jsonl":
            path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    uri = bucket.upload(tmp_path, "tables")
    table = TableLogs.model_validate(
        {"kind": "table", "format": file_format, "pattern": f"*.{file_format}", "time": "at", "eval": {"fraction": 0.1}}
    )
    files = files_of(table, uri, LightStorage())
    assert [str(day) for day in days_with_rows(table, files, open_light)] == ["2024-03-01", "2024-03-02", "2024-03-03"]


def test_a_delta_table_is_read_as_of_a_version(bucket: Bucket, tmp_path: Path) -> None:
    from deltalake import write_deltalake

    for number in range(2):
        rows = pa.table({"at": [1_709_251_200 + 86_400 * number], "country": ["a b"]})
        write_deltalake(str(tmp_path / "clicks"), rows, partition_by=["country"], mode="append")
    uri = bucket.upload(tmp_path, "tables")
    table = TableLogs.model_validate(
        {"kind": "table", "format": "delta", "pattern": "clicks", "time": "at", "eval": {"fraction": 0.1}}
    )
    files = files_of(table, uri, LightStorage())
    assert [str(day) for day in days_with_rows(table, files, open_light)] == ["2024-03-01", "2024-03-02"]
    first = files_of(table.model_copy(update={"version": 0}), uri, LightStorage())
    assert [str(day) for day in days_with_rows(table, first, open_light)] == ["2024-03-01"]


def test_a_missing_bucket_is_named(bucket: Bucket) -> None:
    with pytest.raises(UserError, match=place_and_value("s3://no-such-bucket/logs", "NO_SUCH_BUCKET")):
        LightStorage().match(["s3://no-such-bucket/logs/*.csv"])


def test_a_server_that_does_not_answer_is_named(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(UserError, match=place_and_value(f"{bucket.uri}/logs", "NETWORK_CONNECTION")) as raised:
        LightStorage().match([f"{bucket.uri}/logs/*.csv"])
    assert "AWS_ENDPOINT_URL" in str(raised.value)


def test_wrong_credentials_are_named(bucket: Bucket) -> None:
    import httpx

    reset = f"{bucket.variables['AWS_ENDPOINT_URL']}/moto-api/reset-auth"
    bucket.put("a.csv", b"1")
    httpx.post(reset, content=b"0")
    try:
        for place in (bucket.uri, f"{bucket.uri}/a.csv"):
            told = place_and_value(place, "AWS_ACCESS_KEY_ID")
            with pytest.raises(UserError, match=told) as raised:
                open_light(place) if place.endswith("csv") else LightStorage().match([f"{place}/*"])
            assert "\n" not in str(raised.value)
    finally:
        httpx.post(reset, content=b"inf")


def test_the_endpoint_of_s3_precedes_that_of_all_services_and_a_proxy_is_not_used_for_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example:8080")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    endpoints = {"AWS_ENDPOINT_URL": "http://store.example", "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9000"}
    assert s3_settings("b", endpoints) == {"endpoint_override": "http://127.0.0.1:9000"}
    endpoints.pop("AWS_ENDPOINT_URL_S3")
    assert s3_settings("b", {**endpoints, "AWS_DEFAULT_REGION": "eu-west-1"}) == {
        "endpoint_override": "http://store.example",
        "region": "eu-west-1",
        "proxy_options": "http://proxy.example:8080",
    }
