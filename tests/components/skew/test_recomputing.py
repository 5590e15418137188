"""Logged requests are joined to tables as of their times, as training's examples are: nothing differs on that path."""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from sangam.components.arrow_files import read_parquet
from sangam.components.logs.readers import parquet
from sangam.components.logs.readers.batches import Rows
from sangam.components.request_log.served import Served
from sangam.components.skew.comparing import compare
from sangam.components.skew.recomputing import recompute
from sangam.components.skew.sampling import CANDIDATE, candidates_of, sampled
from sangam.schemas.contracts.request_log import REQUEST_ID
from sangam.schemas.derived.days import parse_day
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column
from tests.components.request_log.sample_requests import write
from tests.components.skew.sample_tables import CANDIDATES, COLUMNS, DAYS, LOGS, PLAN, REQUESTS, request, write_tables
from tests.errors import tells

pytestmark = pytest.mark.slow

READ = [*COLUMNS, Column(REQUEST_ID, "string")]
KEYS = (REQUEST_ID, CANDIDATE, "post")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tables(tmp_path_factory.mktemp("skew"))


def _compared(root: Path, log: Path, requests: Sequence[Served]) -> Any:
    write(log, PLAN, requests)
    day = parse_day(DAYS[-1])
    served = sampled(str(log), day, 100, COLUMNS)
    return compare(served, recompute(served, LOGS, COLUMNS, str(root), day, KEYS), KEYS)


def test_features_of_requests_equal_those_of_a_join(tables: Path) -> None:
    found = _compared(tables, tables / "right", [request(number, 0) for number in range(REQUESTS)])
    rows = REQUESTS * CANDIDATES
    assert (found.rows, found.unmatched) == (rows, 0)
    assert [(each.column, each.compared, each.different) for each in found.columns] == [
        ("price", rows, 0),
        ("tags", rows, 0),
    ]


def test_a_server_with_the_version_before_is_found_with_therequest(tables: Path) -> None:
    found = _compared(tables, tables / "old", [request(number, 1) for number in range(REQUESTS)])
    worst = found.worst
    assert (worst.column, worst.cause.kind, worst.cause.share) == ("price", "older version of a join", 1.0)
    example = worst.examples[0]
    assert example.keys == {"request_id": "r0", "candidate": 0, "post": 0}
    assert example.offline - example.served == 1 / 8


def test_a_sample_has_whole_requests_and_is_the_same_again(tables: Path) -> None:
    write(tables / "many", PLAN, [request(number, 0) for number in range(REQUESTS)])
    log, day = str(tables / "many"), parse_day(DAYS[-1])
    found = sampled(log, day, 3, COLUMNS)
    again = sampled(log, day, 3, COLUMNS)
    assert found.drop_columns(["price"]).equals(again.drop_columns(["price"]))  # It has NaN.
    assert found[CANDIDATE].to_pylist() == list(range(CANDIDATES)) * 3
    assert len(found[REQUEST_ID].unique()) == 3
    assert sampled(log, parse_day(DAYS[0]), 3, COLUMNS).num_rows == 0


def test_a_sample_is_that_of_all_rows_and_reads_only_the_row_groups_that_have_it(tmp_path: Path) -> None:
    log, day = tmp_path / "log", parse_day(DAYS[-1])
    write(log, PLAN, [request(number, 0) for number in range(REQUESTS)])
    files = sorted(log.glob("20*/*/*.parquet"))
    ids = sorted((f"r{number}".encode() for number in range(REQUESTS)), key=_hash)[:3]
    expected = []
    for file in files:
        pq.write_table(read_parquet(file, ""), file, row_group_size=1)
        rows = pa.Table.from_batches([rows.batch for rows in _read(file)])
        expected += rows.filter(pc.is_in(rows[REQUEST_ID].cast(pa.binary()), pa.array(ids)))["post"].to_pylist()
        _damage(file, ids)
    found = sampled(str(log), day, 3, COLUMNS)
    assert found["post"].to_pylist() == expected
    assert set(found[REQUEST_ID].to_pylist()) == set(ids)
    with pytest.raises(UserError):
        list(_read(next(file for file in files if pq.ParquetFile(file).num_row_groups > 1)))


def _read(file: Path) -> Iterator[Rows]:
    with file.open("rb") as opened:
        yield from parquet.read(opened, str(file), READ)


def _damage(file: Path, ids: Sequence[bytes]) -> None:
    """Overwrites the posts of all row groups without requests of these ids: one that is read would be refused."""
    opened, content = pq.ParquetFile(file), bytearray(file.read_bytes())
    for group in range(opened.num_row_groups):
        if opened.read_row_group(group, [REQUEST_ID])[REQUEST_ID][0].as_py().encode() in ids:
            continue
        [posts] = [
            column
            for at in range(opened.metadata.num_columns)
            if (column := opened.metadata.row_group(group).column(at)).path_in_schema.startswith("post.")
        ]
        start = posts.dictionary_page_offset or posts.data_page_offset
        content[start : start + posts.total_compressed_size] = bytes(posts.total_compressed_size)
    file.write_bytes(content)


def test_a_file_without_a_column_is_told_only_where_it_has_requests_of_the_sample(tmp_path: Path) -> None:
    log, day = tmp_path / "log", parse_day(DAYS[-1])
    write(log, PLAN, [request(0, 0)])
    column = Column("unknown", "int")
    assert candidates_of(str(log), day, pa.array([b"other"]), [column]).num_rows == 0
    with pytest.raises(UserError) as caught:
        candidates_of(str(log), day, pa.array([b"r0"]), [column])
    assert tells(str(caught.value), "column 'unknown'", "got request_id"), str(caught.value)


def _hash(request_id: bytes) -> bytes:
    return hashlib.blake2b(request_id, digest_size=8).digest()
