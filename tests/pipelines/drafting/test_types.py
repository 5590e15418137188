"""Every type of Parquet: what the draft makes of a column is what a run reads, or a reason with what to do."""

import datetime
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sangam.components.logs.readers import formats
from sangam.components.logs.rows.conversion import convert
from sangam.pipelines.drafting import draft
from sangam.schemas.derived.columns import columns
from sangam.schemas.spec import Spec
from tests.errors import mentions
from tests.pipelines.drafting.sample_logs import left_out, spec_of, valid

REPEATS = 20
NAME = "is_c"
"""A column that is a feature also where it has two values."""
TEXTS = [None, "a", "b", "a"]
WHOLE = [None, 1, 2, 1]
REAL = [None, 0.5, 2.0, 0.5]
IDS = [uuid.UUID(int=number) for number in range(4)]
STRUCT = pa.struct({"id": pa.int64(), "w": pa.float64()})
STRUCTS = [None, [], [{"id": 1, "w": 0.5}, {"id": 2, "w": 1.0}], [{"id": 1, "w": 0.5}]]


def of(kind: pa.DataType, values: list[Any]) -> pa.Array:
    return pa.array(values * REPEATS, kind)


def extension(kind: Any, values: list[Any]) -> pa.Array:
    return pa.ExtensionArray.from_storage(kind, of(kind.storage_type, values))


def write(folder: Path, array: pa.Array, **options: Any) -> Path:
    folder.mkdir()
    rows = len(array)
    others = {"clicked": np.arange(rows) % 3 // 2, "price": np.random.default_rng(0).random(rows)}
    pq.write_table(pa.table({**others, NAME: array}), folder / "a.parquet", **options)
    return folder


def read(spec: Spec, path: Path) -> dict[str, list[Any]]:
    """Returns the first values of the columns of `c`, as ingestion reads them."""
    wanted = columns(spec)
    with path.open("rb") as file:
        assert formats.inspect(spec.data, file, str(path), wanted).problems == ()
        file.seek(0)
        [rows] = formats.read(spec.data, file, str(path), wanted)
    batch = convert(rows.batch, wanted, str(path)).batch
    names = [column.name for column in wanted if column.name.split(".")[0] == NAME]
    return {name: batch.column(name).to_pylist()[: len(TEXTS)] for name in names}


def single(values: list[Any]) -> dict[str, list[Any]]:
    return {NAME: [None if value is None else [value] for value in values]}


READ: dict[str, tuple[pa.Array, dict[str, list[Any]]]] = {
    **{
        str(kind): (of(kind, TEXTS), single([None, b"a", b"b", b"a"]))
        for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.large_binary(), pa.binary_view())
    },
    "dictionary": (of(pa.string(), TEXTS).dictionary_encode(), single([None, b"a", b"b", b"a"])),
    "bytes of fixed width": (of(pa.binary(2), [b"ab", b"cd", b"ab", b"cd"]), single([b"ab", b"cd", b"ab", b"cd"])),
    **{str(kind): (of(kind, WHOLE), single(WHOLE)) for kind in (pa.int8(), pa.uint16(), pa.int64(), pa.uint64())},
    "uint64 above int64": (
        of(pa.uint64(), [2**64 - 1, 2**63, 7, 7]),
        single([b"18446744073709551615", b"9223372036854775808", b"7", b"7"]),
    ),
    "bool": (of(pa.bool_(), [None, True, False, True]), single([None, 1, 0, 1])),
    "float16": (of(pa.float16(), [None, *map(np.float16, REAL[1:])]), single(REAL)),
    **{
        str(kind): (of(kind, [None, *(Decimal(str(value)) for value in REAL[1:])]), single(REAL))
        for kind in (pa.decimal128(9, 3), pa.decimal256(40, 3))
    },
    "UUID": (extension(pa.uuid(), [one.bytes for one in IDS]), single([str(one).encode() for one in IDS])),
    "bool8": (extension(pa.bool8(), [1, 0, None, 1]), single([1, 0, None, 1])),
    "JSON": (extension(pa.json_(), ["1", '"a"', None, "1"]), single([b"1", b'"a"', None, b"1"])),
    "tensor": (
        extension(pa.fixed_shape_tensor(pa.float32(), [2]), [[0.5, 1.0], [2.0, 0.0]] * 2),
        {NAME: [[0.5, 1.0], [2.0, 0.0]] * 2},
    ),
    "list of fixed size": (
        of(pa.list_(pa.float32(), 2), [[0.5, 1.0], [2.0, 0.0]] * 2),
        {NAME: [[0.5, 1.0], [2.0, 0.0]] * 2},
    ),
    **{
        str(kind): (of(kind, [None, ["a"], [], ["a", "b"]]), {NAME: [[], [b"a"], [], [b"a", b"b"]]})
        for kind in (pa.list_(pa.string()), pa.large_list(pa.large_string()))
    },
    "list of UUIDs": (
        pa.ListArray.from_arrays(
            pa.array(range(0, 81, 2), pa.int32()), extension(pa.uuid(), [one.bytes for one in IDS])
        ),
        {NAME: [[str(one).encode() for one in pair] for pair in (IDS[:2], IDS[2:])] * 2},
    ),
    "struct": (
        of(STRUCT, [None, {"id": 1, "w": None}, {"id": 2, "w": 0.5}, {"id": 1, "w": 0.5}]),
        {f"{NAME}.id": [None, [1], [2], [1]], f"{NAME}.w": [None, None, [0.5], [0.5]]},
    ),
    **{
        f"{name} of structs": (
            of(kind, STRUCTS),
            {f"{NAME}.id": [[], [], [1, 2], [1]], f"{NAME}.w": [[], [], [0.5, 1.0], [0.5]]},
        )
        for name, kind in {"list": pa.list_(STRUCT), "large list": pa.large_list(STRUCT)}.items()
    },
    "map": (
        of(pa.map_(pa.string(), pa.float64()), [None, [], [("price", 0.5), ("a.b", 1.0)], [("price", 2.0)]]),
        {f"{NAME}.price": [None, None, [0.5], [2.0]], f"{NAME}.a.b": [None, None, [1.0], None]},
    ),
    "map by integers": (
        of(pa.map_(pa.int32(), pa.string()), [None, [(1, "x")], [(1, "y"), (1, "z")], [(1, "x")]]),
        {f"{NAME}.1": [None, [b"x"], [b"z"], [b"x"]]},
    ),
    "map of structs": (
        of(pa.map_(pa.string(), STRUCT), [None, [("k", {"id": 1, "w": 0.5})], [("k", {"id": 2, "w": None})], []]),
        {f"{NAME}.k.id": [None, [1], [2], None], f"{NAME}.k.w": [None, [0.5], None, None]},
    ),
    "map in a struct": (
        of(
            pa.struct({"m": pa.map_(pa.string(), pa.float64())}),
            [None, {"m": [("k", 0.5)]}, {"m": None}, {"m": [("k", 2)]}],
        ),
        {f"{NAME}.m.k": [None, [0.5], None, [2.0]]},
    ),
}


@pytest.mark.parametrize("name", READ)
def test_what_is_drafted_for_a_type_is_read_by_a_run(tmp_path: Path, name: str) -> None:
    array, expected = READ[name]
    logs = write(tmp_path / "logs", array)
    found = read(spec_of(valid(draft(logs, "small", ["clicked"]))), logs / "a.parquet")
    assert found == expected


TIMES = [datetime.datetime(2024, 5, 1, 12), datetime.datetime(2024, 5, 2), None, datetime.datetime(2024, 5, 3, 1)]


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("ms", "Asia/Kolkata"), "int96"])
def test_times_of_every_type_are_seconds(tmp_path: Path, kind: Any) -> None:
    is_int96 = kind == "int96"
    array = of(pa.timestamp("ns") if is_int96 else kind, [each or TIMES[0] for each in TIMES])
    logs = write(tmp_path / "logs", array, use_deprecated_int96_timestamps=is_int96)
    document = valid(draft(logs, "small", ["clicked"]))
    assert document["data"]["columns"] == {NAME: {"kind": "time", "zone": "UTC"}}
    seconds = [int((each or TIMES[0]).replace(tzinfo=datetime.UTC).timestamp()) for each in TIMES]
    assert read(spec_of(document), logs / "a.parquet") == single(seconds)


@pytest.mark.parametrize(
    ("kind", "values", "told"),
    [
        (pa.time64("us"), [datetime.time(1)], "integer"),
        (pa.duration("s"), [datetime.timedelta(1)], "integer"),
        (pa.list_(pa.timestamp("us")), [TIMES[:2]], "integers"),
        (pa.list_(pa.list_(pa.string())), [[["a"]]], "one list"),
        (pa.map_(pa.string(), pa.int64()), [[(f"k{number}", 1) for number in range(101)]], "is_c.KEY"),
        (pa.list_(pa.map_(pa.string(), pa.int64())), [[[("k", 1)]]], "is_c.KEY"),
    ],
)
def test_another_type_is_left_out_with_what_to_do(
    tmp_path: Path, kind: pa.DataType, values: list[Any], told: str
) -> None:
    made = draft(write(tmp_path / "logs", of(kind, values)), "small", ["clicked"])
    assert mentions(left_out(made)[NAME], told)


def test_files_with_other_keys_and_wider_types_are_one_log(tmp_path: Path) -> None:
    kind = pa.map_(pa.string(), pa.int64())
    logs = write(tmp_path / "logs", of(kind, [[("a", 1)]]))
    write(tmp_path / "more", of(kind, [[("b", 2)]]))
    (tmp_path / "more" / "a.parquet").rename(logs / "b.parquet")
    spec = spec_of(valid(draft(logs, "small", ["clicked"])))
    assert {name for name in spec.features if name.startswith(NAME)} == {"is_c_a", "is_c_b"}
    with (logs / "a.parquet").open("rb") as file:
        [rows] = formats.read(spec.data, file, "a.parquet", columns(spec))
    # Only the rows show which keys there are.
    assert rows.absent == {f"{NAME}.b"}
