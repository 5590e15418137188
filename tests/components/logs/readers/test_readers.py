import gzip
import io
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sangam.components.logs.joining.canonical import canonical
from sangam.components.logs.joining.keys import NO_KEY, codes
from sangam.components.logs.readers import formats
from sangam.components.logs.readers.batches import Inspection
from sangam.components.logs.rows.conversion import convert
from sangam.schemas.derived.columns import columns
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column
from sangam.schemas.spec import Inputs
from tests.components.logs.sample_logs import (
    INPUTS,
    ROWS,
    Row,
    day_logs,
    examples,
    expected,
    table,
    write,
    write_records,
)
from tests.errors import place_and_value, tells

COLUMNS = columns(INPUTS)
FORMATS = ["parquet", "csv", "tfrecord"]
N = [Column("n", "int", is_required=False)]


def read(path: Path, format_name: str, wanted: list[Column] = COLUMNS) -> list[dict[str, list[Any]]]:
    """Returns the values of each row; a column without values is left out."""
    found = []
    with path.open("rb") as file:
        for rows in formats.read(day_logs(format_name), file, str(path), wanted):
            for row in convert(rows.batch, wanted, str(path)).batch.to_pylist():
                found.append({name: values for name, values in row.items() if values})
    return found


def inspect(path: Path, format_name: str, wanted: list[Column] = COLUMNS) -> Inspection:
    with path.open("rb") as file:
        return formats.inspect(day_logs(format_name), file, str(path), wanted)


def csv_file(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def without_column(name: str) -> list[Row]:
    return [{key: value for key, value in row.items() if key != name} for row in ROWS]


@pytest.mark.parametrize("format_name", FORMATS)
def test_every_format_gives_the_same_rows(tmp_path: Path, format_name: str) -> None:
    path = write(tmp_path / "data", format_name, ROWS)
    assert inspect(path, format_name).problems == ()
    assert read(path, format_name) == [expected(row, COLUMNS) for row in ROWS]


@pytest.mark.parametrize("format_name", FORMATS)
def test_an_empty_text_is_missing_in_every_format_as_a_value_and_as_a_key_of_a_join(
    tmp_path: Path, format_name: str
) -> None:
    wanted = [Column("s", "string", is_required=False), Column("tags", "string", is_list=True, is_required=False)]
    path = write(tmp_path / "data", format_name, [{"s": "", "tags": ["", "a"]}, {"s": "u", "tags": []}])
    assert read(path, format_name, wanted) == [{"tags": [b"a"]}, {"s": [b"u"]}]
    with path.open("rb") as file:
        [rows] = formats.read(day_logs(format_name), file, str(path), wanted)
    [keys] = codes([canonical(rows.batch, wanted[:1], str(path))["s"]])
    assert keys.tolist() == [NO_KEY, keys[1]]
    assert keys[1] != NO_KEY


@pytest.mark.parametrize("format_name", FORMATS)
def test_every_format_gives_the_same_vectors_weights_and_masks(tmp_path: Path, format_name: str) -> None:
    declared = Inputs.model_validate_json(
        """{
        "features": {
            "image": {"kind": "vector", "dim": 3, "missing": 0},
            "tags": {"kind": "ids", "type": "string", "table": "t", "combiner": "mean", "weights": "tag_weights"}
        },
        "tasks": {
            "buy": {"kind": "binary", "only_where": "clicked", "missing_label": "mask", "example_weight": "worth"},
            "watch": {"kind": "watch_time"}
        }
        }"""
    )
    rows = [
        {"image": [0.5, 0.0, -2.0], "tags": ["a", "b"], "tag_weights": [0.0, 0.25], "clicked": 1, "buy": 0},
        {"image": None, "tags": [], "tag_weights": [], "clicked": 0, "buy": None},
        {"image": [1.0, 1.0, 1.0], "tags": ["c"], "tag_weights": [1.0], "clicked": None, "buy": 1},
    ]
    full: list[Row] = [{**row, "worth": 0.5 * place, "watch": float(place)} for place, row in enumerate(rows)]
    path = write(tmp_path / "data", format_name, full)
    assert read(path, format_name, columns(declared)) == [expected(row, columns(declared)) for row in full]


def test_a_csv_vector_or_weight_that_is_left_empty_is_an_error_rather_than_a_shift(tmp_path: Path) -> None:
    wanted = [
        Column("ids", "int", is_list=True, is_required=False),
        Column("v", "float", is_list=True, is_required=False, length=3),
        Column("w", "float", is_list=True, is_required=False, beside=("ids",)),
    ]
    with pytest.raises(UserError, match=place_and_value("column 'v'", "(got 2 floats)")):
        read(csv_file(tmp_path / "a", "ids,v,w\n7,1||3,1\n"), "csv", wanted)
    with pytest.raises(UserError, match=place_and_value("column 'w'", "(got 1 and 2 values)")):
        read(csv_file(tmp_path / "b", "ids,v,w\n,1|2|3,\n7|8,1|2|3,|0.5\n"), "csv", wanted)


@pytest.mark.parametrize("format_name", ["csv", "tfrecord"])
def test_compressed_files_are_read(tmp_path: Path, format_name: str) -> None:
    plain = write(tmp_path / "data", format_name, ROWS)
    path = tmp_path / "data.gz"
    path.write_bytes(gzip.compress(plain.read_bytes()))
    assert not inspect(path, format_name).is_empty
    assert read(path, format_name) == [expected(row, COLUMNS) for row in ROWS]


@pytest.mark.parametrize("format_name", FORMATS)
def test_files_larger_than_a_batch_are_read_whole(tmp_path: Path, format_name: str) -> None:
    path = write(tmp_path / "data", format_name, [{"n": number} for number in range(10_000)])
    assert read(path, format_name, N) == [{"n": [number]} for number in range(10_000)]


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_file_without_rows_is_seen_before_the_run(tmp_path: Path, format_name: str) -> None:
    assert inspect(write(tmp_path / "data", format_name, []), format_name).is_empty


def test_the_footer_tells_the_number_of_rows(tmp_path: Path) -> None:
    assert inspect(write(tmp_path / "data", "parquet", ROWS), "parquet").num_rows == 4


@pytest.mark.parametrize("format_name", ["parquet", "csv"])
def test_a_missing_column_is_seen_before_the_run(tmp_path: Path, format_name: str) -> None:
    path = write(tmp_path / "data", format_name, without_column("tags"))
    (problem,) = inspect(path, format_name).problems
    assert tells(problem, f"{path}: column 'tags'", "is missing (got history, hour, like, ")


def test_a_wrong_type_is_seen_before_the_run(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1.5]}), tmp_path / "data")
    [problem] = inspect(tmp_path / "data", "parquet", N).problems
    assert tells(problem, f"{tmp_path}/data: column 'n'", "(got double)")


@pytest.mark.parametrize(
    ("content", "word"),
    [(b"", "not a Parquet file"), (b"PAR1", "damaged"), (b"not parquet at all", "not a Parquet file (got b'not '")],
)
def test_what_is_no_parquet_is_seen_before_the_run(tmp_path: Path, content: bytes, word: str) -> None:
    (tmp_path / "data").write_bytes(content)
    (problem,) = inspect(tmp_path / "data", "parquet").problems
    assert tells(problem, f"{tmp_path}/data", word)
    assert ("write it again" in problem) == (word == "damaged")


class Counting(io.BytesIO):
    """A file that knows the most bytes that were read at once."""

    most = 0

    def read(self, size: int | None = -1) -> bytes:
        content = super().read(size)
        self.most = max(self.most, len(content))
        return content


def test_a_row_group_is_never_in_memory_as_a_whole(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).integers(0, 2**62, 500_000)
    file = Counting()
    pq.write_table(pa.table({"n": numbers}), file, row_group_size=500_000, use_dictionary=False)
    file.seek(0)
    assert sum(each.batch.num_rows for each in formats.read(day_logs(), file, "n", N)) == 500_000
    assert file.most <= 2**20 < numbers.nbytes


def test_a_cut_off_parquet_file_is_seen_before_the_run(tmp_path: Path) -> None:
    path = write(tmp_path / "data", "parquet", ROWS)
    path.write_bytes(path.read_bytes()[:-100])
    assert tells(inspect(path, "parquet").problems[0], str(path), "truncated")


def test_a_corrupt_parquet_page_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "data"
    pq.write_table(pa.table({"n": list(range(10_000))}), path, compression="gzip", use_dictionary=False)
    content = bytearray(path.read_bytes())
    content[100:2000] = bytes(1900)
    path.write_bytes(content)
    with pytest.raises(UserError, match=place_and_value(f"{path}: column 'n'", "damaged")):
        read(path, "parquet", N)


def test_a_column_that_is_there_twice_is_an_error(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["n", "n"]), tmp_path / "data")
    assert tells(inspect(tmp_path / "data", "parquet", N).problems[0], "column 'n'", "(got 2 ")
    assert tells(inspect(csv_file(tmp_path / "c", "n,n\n1,2\n"), "csv", N).problems[0], "column 'n'", "(got 2 ")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('s,n\n"a \\"b\\", c",1\n', "(got 3) ... quotes twice"),
        ("s,n\na,false\n", "(got 'false') ... n: {kind: codes"),
        ("s,n\na,NULL\n", "(got 'NULL') ... missing: ['NULL']"),
    ],
)
def test_what_spark_and_pandas_write_in_their_own_way_is_told_with_what_to_write(
    tmp_path: Path, text: str, told: str
) -> None:
    path = csv_file(tmp_path / "a.csv", text)
    with pytest.raises(UserError, match=place_and_value(f"{path}: line 2", told)):
        read(path, "csv", [Column("s", "string"), Column("n", "int")])


def test_a_csv_line_with_a_wrong_number_of_cells_is_named(tmp_path: Path) -> None:
    path = csv_file(tmp_path / "data", "n,m\n1,2\n1,2,3\n")
    with pytest.raises(UserError, match=place_and_value(f"{path}: line 3", "(got 3)")):
        read(path, "csv", N)


@pytest.mark.parametrize("value", ["1.0", "NA", "18446744073709551615", "two"])
def test_a_csv_cell_of_another_type_is_named(tmp_path: Path, value: str) -> None:
    path = csv_file(tmp_path / "data", f"m,n\n1,2\n3,4\n5,{value}\n")
    with pytest.raises(UserError, match=place_and_value(f"{path}: line 4: column 'n'", f"(got '{value}')")):
        read(path, "csv", N)


def test_a_value_of_another_type_in_a_csv_list_is_named(tmp_path: Path) -> None:
    path = csv_file(tmp_path / "data", "ns\n1|2\n3|x\n")
    with pytest.raises(UserError, match=place_and_value(f"{path}: line 3: column 'ns'", "(got 'x')")):
        read(path, "csv", [Column("ns", "int", is_list=True)])


def test_words_for_nothing_are_text_in_a_csv_and_only_an_empty_cell_is_missing(tmp_path: Path) -> None:
    path = csv_file(tmp_path / "data", 's,n\nNA,1\nnull,2\n"",3\n')
    wanted = [Column("n", "int"), Column("s", "string", is_required=False)]
    assert read(path, "csv", wanted) == [{"n": [1], "s": [b"NA"]}, {"n": [2], "s": [b"null"]}, {"n": [3]}]


@pytest.mark.parametrize(
    ("content", "value"),
    [
        ("s;n\na;1\n", "';' (got 's;n') ... separator"),
        ("s\tn\na\t1\n", r"'\t' (got 's\tn') ... separator"),
        ("s,n\na,1\n".encode("utf-16"), "UTF-16 ... iconv"),
    ],
)
def test_another_dialect_of_csv_is_seen_before_the_run(tmp_path: Path, content: str | bytes, value: str) -> None:
    path = tmp_path / "data"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    [problem] = inspect(path, "csv", [Column("n", "int"), Column("s", "string")]).problems
    assert tells(problem, str(path), value)


@pytest.mark.parametrize(
    ("cells", "value"), [(["a", "\\N"], r"(got '\N') ... missing"), ([" a", " b"] * 5, "space (got ' a')")]
)
@pytest.mark.parametrize("is_list", [False, True])
def test_texts_of_other_dialects_become_no_ids(tmp_path: Path, cells: list[str], value: str, is_list: bool) -> None:
    path = csv_file(tmp_path / "data", "s\n" + "\n".join(cells) + "\n")
    with pytest.raises(UserError, match=place_and_value(f"{path}: column 's'", value)):
        read(path, "csv", [Column("s", "string", is_list=is_list)])


def test_labels_that_pandas_wrote_as_floats_are_read(tmp_path: Path) -> None:
    like = Column("like", "int", is_label=True, is_binary=True)
    assert read(csv_file(tmp_path / "a", "m,like\n1,1.0\n1,\n1,0.0\n1,1\n"), "csv", [like]) == [
        {"like": [1]},
        {"like": [0]},
        {"like": [1]},
    ]
    with pytest.raises(UserError, match=place_and_value("column 'like'", "(got 0.5)")):
        read(csv_file(tmp_path / "b", "like\n0.5\n"), "csv", [like])


def test_a_column_that_only_a_folders_name_has_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "n=IN"
    folder.mkdir()
    for format_name, file in (("parquet", "a"), ("csv", "b")):
        [problem] = inspect(write(folder / file, format_name, [{"m": 1}]), format_name, N).problems
        assert tells(problem, "column 'n'", "(got n=IN)")


def test_csv_quotes_line_breaks_and_byte_order_marks_are_read(tmp_path: Path) -> None:
    path = csv_file(tmp_path / "data", '\ufeffs,n\r\n"a ""b"", c\nd",1\r\n')
    assert read(path, "csv", [Column("n", "int"), Column("s", "string")]) == [{"n": [1], "s": [b'a "b", c\nd']}]
    (tmp_path / "of an old Mac").write_bytes(b"n\r1\r2\r")
    assert inspect(tmp_path / "of an old Mac", "csv", N).problems == ()
    assert read(tmp_path / "of an old Mac", "csv", N) == [{"n": [1]}, {"n": [2]}]


def test_empty_parts_of_a_csv_list_are_no_values(tmp_path: Path) -> None:
    path = csv_file(tmp_path / "data", "s,n\n|a||b|,1\n|,2\n")
    wanted = [Column("n", "int"), Column("s", "string", is_list=True)]
    assert read(path, "csv", wanted) == [{"n": [1], "s": [b"a", b"b"]}, {"n": [2]}]


def test_an_empty_csv_file_has_no_rows(tmp_path: Path) -> None:
    assert inspect(csv_file(tmp_path / "data", ""), "csv").is_empty
    assert inspect(csv_file(tmp_path / "data2", "n\n\n\n"), "csv", N).is_empty


@pytest.mark.parametrize("format_name", ["csv", "tfrecord"])
def test_a_cut_off_compressed_file_is_an_error(tmp_path: Path, format_name: str) -> None:
    plain = write(tmp_path / "data", format_name, [{"n": number * 7919 % 10007} for number in range(10_000)])
    whole = gzip.compress(plain.read_bytes())
    path = tmp_path / "data.gz"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match=place_and_value(str(path), "truncated")):
        read(path, format_name, N)


@pytest.mark.parametrize("num_bytes", [1, 5, 14])
def test_a_cut_off_record_file_is_an_error(tmp_path: Path, num_bytes: int) -> None:
    path = tmp_path / "data"
    write_records(path, [b"one record", b"another"])
    path.write_bytes(path.read_bytes()[:-num_bytes])
    with pytest.raises(UserError, match=place_and_value(str(path), "truncated after 1 record")):
        read(path, "tfrecord")


def test_a_corrupt_record_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "data"
    write_records(path, examples(table(ROWS).to_batches()[0]))
    content = bytearray(path.read_bytes())
    content[20] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=place_and_value(str(path), "record 1 ... checksum")):
        read(path, "tfrecord")
    path.write_bytes(b"this is text and no record file")
    assert tells(inspect(path, "tfrecord").problems[0], str(path), "not a TFRecord file")


def test_records_that_are_no_example_are_counted_and_left_out(tmp_path: Path) -> None:
    path = tmp_path / "data"
    good = examples(table([{"n": 1}, {"n": 0}]).to_batches()[0])
    write_records(path, [good[0], b"garbage", good[1]])
    with path.open("rb") as file:
        (rows,) = formats.read(day_logs("tfrecord"), file, str(path), N)
    assert rows.batch.to_pydict() == {"n": [1, 0]}
    assert rows.num_unreadable == 1


def test_columns_that_no_record_has_are_told_from_those_without_values(tmp_path: Path) -> None:
    path = tmp_path / "data"
    write_records(path, examples(table([{"post": None}]).to_batches()[0]))
    wanted = [Column("post", "int", is_required=False), Column("m", "int", is_required=False)]
    with path.open("rb") as file:
        (rows,) = formats.read(day_logs("tfrecord"), file, str(path), wanted)
    assert rows.absent == {"m"}
    assert rows.batch.to_pydict() == {"post": [None], "m": [None]}


def test_a_wrong_type_in_records_is_named(tmp_path: Path) -> None:
    path = tmp_path / "data"
    write_records(path, examples(table([{"n": 1.5}]).to_batches()[0]))
    with pytest.raises(UserError, match=place_and_value(f"{path}: column 'n'", "(got float)")):
        read(path, "tfrecord", N)


def test_two_types_of_one_column_in_records_are_named(tmp_path: Path) -> None:
    path = tmp_path / "data"
    batches = [table([{"n": value}]).to_batches()[0] for value in (1, 1.5)]
    write_records(path, [record for batch in batches for record in examples(batch)])
    with pytest.raises(UserError, match=place_and_value(f"{path}: column 'n'", "(got int64 in some records, float in")):
        read(path, "tfrecord", N)


def test_several_values_in_a_scalar_column_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "data"
    write_records(path, examples(table([{"n": [1, 2]}]).to_batches()[0]))
    with pytest.raises(UserError, match=place_and_value("column 'n'", "(got 2)")):
        read(path, "tfrecord", N)


def test_integers_of_records_may_fill_a_float_column(tmp_path: Path) -> None:
    path = tmp_path / "data"
    write_records(path, examples(table([{"x": 3}, {"x": None}]).to_batches()[0]))
    found = read(path, "tfrecord", [Column("x", "float", is_required=False)])
    assert Counter(map(str, found)) == Counter(["{'x': [3.0]}", "{}"])
