"""The same rows in every dialect that teams write: the draft reads the same values from each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sangam.components.logs.readers import formats
from sangam.components.logs.rows.conversion import convert
from sangam.pipelines.drafting import draft
from sangam.schemas.derived.columns import columns
from sangam.schemas.errors import UserError
from tests.errors import tells
from tests.pipelines.drafting.sample_logs import spec_of, valid

ROWS = 300
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "user_id": RNG.integers(1, 40, ROWS),
        "item_id": RNG.integers(1, 30, ROWS),
        "price": np.where(np.arange(ROWS) % 10, RNG.integers(1, 400, ROWS) / 4, np.nan),
        "title": [f'a "big"\nthing; or, {number % 7}' for number in range(ROWS)],
        "clicked": RNG.integers(0, 2, ROWS),
    }
)


def as_csv(**options: Any) -> Callable[[Path], None]:
    return lambda path: FRAME.to_csv(path, **{"index": False, **options})


def as_json(path: Path) -> None:
    FRAME.to_json(path, orient="records", lines=True)


def as_movielens(path: Path) -> None:
    """No names, and two marks between cells."""
    rows = FRAME.drop(columns="title").fillna("").itertuples(index=False)
    path.write_text("".join("::".join(map(str, row)) + "\n" for row in rows))


WRITERS: dict[str, Callable[[Path], Any]] = {
    "a.csv": as_csv(),
    "a.csv.gz": as_csv(),
    "of Excel.csv": as_csv(sep=";", encoding="utf-8-sig", lineterminator="\r\n"),
    "of pipes.csv": as_csv(sep="|"),
    "a.tsv": as_csv(sep="\t", na_rep="\\N"),
    "with an index.csv": as_csv(index=True),
    "a.jsonl": as_json,
    "a.json.gz": as_json,
    "ratings.dat": as_movielens,
    "with an index.parquet": lambda path: FRAME.set_index(np.arange(ROWS) * 2).to_parquet(path),
}


def read(path: Path) -> dict[str, Any]:
    """Returns what ingestion reads by the draft: the number of rows, and the values of each column."""
    made = draft(path, "small", ["column_4" if path.suffix == ".dat" else "clicked"])
    spec = spec_of(valid(made))
    wanted = columns(spec)
    with path.open("rb") as file:
        assert formats.inspect(spec.data, file, str(path), wanted).problems == ()
        file.seek(0)
        [rows] = formats.read(spec.data, file, str(path), wanted)
    found = convert(rows.batch, wanted, str(path))
    assert (dict(found.dropped), dict(found.ignored)) == ({}, {})
    names = dict(zip(["column_1", "column_2", "column_3", "column_4"], FRAME.drop(columns="title"), strict=True))
    values = {names.get(name, name): cells for name, cells in found.batch.to_pydict().items()}
    return {"rows": found.batch.num_rows} | {name: [_value(cell) for cell in cells] for name, cells in values.items()}


def _value(cell: Any) -> Any:
    # An id of digits is a text in CSV, whose later cells may have letters; a column without a name is a number.
    text = cell and (cell[0].decode() if isinstance(cell[0], bytes) else str(cell[0]))
    return float(text) if text and text.replace(".", "").isdigit() else text


@pytest.mark.parametrize("name", WRITERS)
def test_every_dialect_gives_the_rows_of_parquet(tmp_path: Path, name: str) -> None:
    FRAME.to_parquet(tmp_path / "a.parquet", index=False)
    (tmp_path / "other").mkdir()
    WRITERS[name](tmp_path / "other" / name)
    expected, found = read(tmp_path / "a.parquet"), read(tmp_path / "other" / name)
    assert (expected["rows"], expected["price"].count(None), len(set(expected["title"]))) == (ROWS, 30, 7)
    if name == "ratings.dat":
        del expected["title"]
    assert found == expected


def test_utf_16_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "a.csv", index=False, encoding="utf-16")
    with pytest.raises(UserError) as error:
        draft(tmp_path / "a.csv", "small", ["clicked"])
    assert tells(str(error.value), f"{tmp_path}/a.csv", "UTF-16 ... iconv")


def test_rows_to_predict_and_a_sample_of_an_answer_are_left_out(tmp_path: Path) -> None:
    FRAME[:200].to_csv(tmp_path / "train.csv")
    FRAME[200:].drop(columns="clicked").to_csv(tmp_path / "test.csv")
    FRAME[200:][["user_id", "clicked"]].to_csv(tmp_path / "sample_submission.csv", index=False)
    made = draft(tmp_path, "small", [])
    assert valid(made)["data"]["pattern"] == "train.csv"
    assert [label.column for label in made.guesses.labels] == ["clicked"]
    assert all(name in made.ignored for name in ("test.csv", "sample_submission.csv"))


def test_names_that_pandas_numbered_are_no_row(tmp_path: Path) -> None:
    FRAME.drop(columns="title").set_axis(range(4), axis=1).to_csv(tmp_path / "a.csv")
    made = draft(tmp_path / "a.csv", "small", ["3"])
    assert "csv" not in valid(made)["data"]
    assert [label.column for label in made.guesses.labels] == ["3"]
