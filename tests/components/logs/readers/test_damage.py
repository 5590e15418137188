"""What a reader refuses: damaged bytes, and what it does not know; a run and a draft say the same."""

import gzip
import re
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sangam.components.logs.readers.damage import parquet_problem
from sangam.pipelines.drafting.reading import read_piece
from sangam.pipelines.drafting.values import values_of
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column
from sangam.schemas.spec.data import CsvDialect
from tests.components.logs.readers.test_readers import N, csv_file, inspect, read
from tests.components.logs.sample_logs import examples, table, write, write_records
from tests.errors import place_and_value, tells
from tests.paths import SHARED_CASES


def test_an_encoding_that_pyarrow_does_not_know_is_told_as_that_with_its_column(tmp_path: Path) -> None:
    error = OSError("Not yet implemented: DecodeArrow for DeltaLengthByteArrayDecoder.")
    pq.write_table(pa.table({"s": ["a"]}), tmp_path / "data")
    with (tmp_path / "data").open("rb") as file:
        problem = parquet_problem(file, str(tmp_path / "data"), error, ["s"])
    assert tells(problem, str(tmp_path / "data"), f"pyarrow {pa.__version__} (got: Not yet implemented")
    assert "write it again" not in problem
    assert "damaged" not in problem


def test_a_name_of_a_column_that_is_not_utf8_is_told_by_a_run_and_a_draft(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": [1], "name": [2]}), path)
    path.write_bytes(path.read_bytes().replace(b"name", b"\xff\xfeme"))
    [problem] = inspect(path, "parquet", N).problems
    assert tells(problem, str(path), "(got b'\\xff\\xfeme')")
    with pytest.raises(UserError) as of_draft:
        read_piece(path, "parquet", 10, 10_000, CsvDialect())
    assert str(of_draft.value) == problem


@pytest.mark.real_data
@pytest.mark.skipif(not SHARED_CASES.exists(), reason="no ../shared/cases")
def test_what_duckdb_writes_as_v2_is_read() -> None:
    path = SHARED_CASES / "01-duckdb-v2/data/2024-03-01/part.parquet"
    wanted = [Column("user_id", "string"), Column("post_id", "int")]
    assert inspect(path, "parquet", wanted).problems == ()
    rows = read(path, "parquet", wanted)
    assert (len(rows), {len(row) for row in rows}) == (600, {2})


@pytest.mark.parametrize("name", ["data", "data.gz"])
@pytest.mark.parametrize(
    "compress",
    [bytes, gzip.compress, zlib.compress, lambda content: gzip.compress(content[:7]) + gzip.compress(content[7:])],
    ids=["plain", "gzip", "zlib", "two members of gzip"],
)
def test_records_are_read_by_their_content_whatever_their_name(
    tmp_path: Path, name: str, compress: Callable[[bytes], bytes]
) -> None:
    write_records(tmp_path / "plain", examples(table([{"n": 1}, {"n": 2}]).to_batches()[0]))
    (tmp_path / name).write_bytes(compress((tmp_path / "plain").read_bytes()))
    assert not inspect(tmp_path / name, "tfrecord").problems
    assert read(tmp_path / name, "tfrecord", N) == [{"n": [1]}, {"n": [2]}]


def test_the_lists_of_a_sequence_example_are_not_lost_but_refused(tmp_path: Path) -> None:
    [example] = examples(table([{"n": 1}]).to_batches()[0])
    # `context` of a tf.SequenceExample is where `features` of a tf.Example is; 2 is `feature_lists`.
    write_records(tmp_path / "data", [example, example + b"\x12\x02\x0a\x00"])
    with pytest.raises(UserError, match=place_and_value(f"{tmp_path}/data", "(got one in records 1 to 2)")):
        read(tmp_path / "data", "tfrecord", N)


def test_what_is_no_tfrecord_is_not_told_to_be_written_again(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"user_id,post_id\n1,2\n")
    [problem] = inspect(tmp_path / "data", "tfrecord").problems
    assert tells(problem, f"{tmp_path}/data", "(got b'user_id,post' at its start)")
    assert "write it again" not in problem


@pytest.mark.parametrize(
    ("content", "value"),
    [
        ("n,m\n1,2\n".encode("utf-16"), "UTF-16 ... iconv"),
        (b"n;m\n1;2,5\n", "';' (got 'n;m') ... separator"),
        (b"\xef\xbb\xbfn\tm\n1\t2\n", "'\\t'"),
    ],
)
def test_another_dialect_of_csv_is_told_by_a_run_and_a_draft_in_the_same_words(
    tmp_path: Path, content: bytes, value: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    [problem] = inspect(path, "csv", N).problems
    assert tells(problem, str(path), value)
    with pytest.raises(UserError) as of_draft:
        read_piece(path, "csv", 10, 10_000, CsvDialect())
    assert str(of_draft.value) == problem


@pytest.mark.parametrize("name", ["a.parquet", "a.csv.gz", "a.tfrecord"])
@pytest.mark.parametrize("damage", ["cut", "no such format"])
def test_a_run_and_a_draft_say_the_same_of_a_file_that_cannot_be_read(tmp_path: Path, name: str, damage: str) -> None:
    format_name = name.split(".")[1]
    path = write(tmp_path / name.removesuffix(".gz"), format_name, [{"n": number} for number in range(1000)])
    content = gzip.compress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()
    path = tmp_path / name
    path.write_bytes(content[: len(content) // 2] if damage == "cut" else b"\x1f\x8bnothing of the kind")
    of_run = list(inspect(path, format_name, N).problems)
    if not of_run:
        with pytest.raises(UserError) as of_reading:
            read(path, format_name, N)
        of_run = [str(of_reading.value)]
    with pytest.raises(UserError) as of_draft:
        read_piece(path, format_name, 10_000, 10**6, CsvDialect())  # type: ignore[arg-type]
    # Two decompressors have words of their own.
    one, other = (re.sub(r"\(got: .*\)", "", text) for text in (of_run[0], str(of_draft.value)))
    assert one == other
    assert ("write it again" in of_run[0]) == (damage == "cut")


@pytest.mark.parametrize("array", [pa.array([1], pa.time32("ms")), pa.array([1], pa.time64("us"))])
def test_a_run_and_a_draft_give_the_same_advice_on_a_type_that_no_spec_reads(tmp_path: Path, array: pa.Array) -> None:
    pq.write_table(pa.table({"n": array}), tmp_path / "data")
    [problem] = inspect(tmp_path / "data", "parquet", N).problems
    assert tells(problem, f"{tmp_path}/data: column 'n'", f"(got {array.type})")
    of_draft = values_of("n", array, "parquet")
    assert isinstance(of_draft, str)
    assert problem.endswith(of_draft.removeprefix(f"{array.type}: "))


@pytest.mark.parametrize("more_bytes", range(0, 40, 5))
def test_a_draft_reads_csv_whose_first_block_ends_within_quotes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more_bytes: int
) -> None:
    """A row has about 40 bytes: the last line break of some first blocks is within quotes."""
    from sangam.components.logs.readers import csv
    from sangam.pipelines.drafting import reading

    monkeypatch.setattr(csv, "BLOCK_BYTES", 2**12 + more_bytes)
    monkeypatch.setattr(reading, "BLOCK_BYTES", 2**12 + more_bytes)
    lines = "".join(f'{number},"two\nlines, ""quoted"" and\nmore"\n' for number in range(1000))
    piece = read_piece(csv_file(tmp_path / "a.csv", f"n,title\n{lines}"), "csv", 1000, 2**12, CsvDialect())
    assert 100 < piece.table.num_rows < 120
    assert set(piece.table.column("title").to_pylist()) == {'two\nlines, "quoted" and\nmore'}
    assert not piece.is_whole
    assert abs(piece.num_rows - 1000) < 100
