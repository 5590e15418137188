"""Files are scored whole, in the order of their rows, and once."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sangam.components.model.places import place_of
from sangam.components.model.predicting.job import REPORT_FILE, run
from sangam.components.model.predicting.request import Job, job_of
from sangam.schemas.errors import UserError
from sangam.schemas.host import lock
from tests.beam_args import BEAM_ARGS
from tests.components.model.committed import FOLDER, LIKE, WITHIN, frame
from tests.errors import place_and_value
from tests.object_stores import Bucket
from tests.pipelines.command_line import sangam

pytestmark = pytest.mark.slow


def _job(data: Path | str, output: Path | str, keep: list[str] | None = None, **options: Any) -> Job:
    place = place_of(FOLDER)
    return job_of(place, place.described(), None, str(data), str(output), keep=keep, file_format=None, **options)


def _run(job: Job, **options: Any) -> dict[str, Any]:
    return run(job, BEAM_ARGS, lambda text: None, **options)


def _rows(first: int, last: int) -> pa.Table:
    rows = frame().iloc[first:last]
    return pa.Table.from_pandas(rows.assign(request=range(first, last), like=0), preserve_index=False)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two files with the committed model's rows, in folders by day, and what is no data."""
    for day, (first, last) in {"2024-03-01": (0, 5), "2024-03-02": (5, 12)}.items():
        folder = tmp_path / "data" / day
        folder.mkdir(parents=True)
        pq.write_table(_rows(first, last), folder / "rows.parquet", row_group_size=2)
        (folder / "_SUCCESS").write_bytes(b"")
    return tmp_path / "data"


def _read(output: Path) -> pd.DataFrame:
    return pd.concat([pq.read_table(file).to_pandas() for file in sorted(output.rglob("*.parquet"))])


def test_each_file_has_its_rows_in_order_with_ids_and_scores(data: Path, tmp_path: Path) -> None:
    output = tmp_path / "scores"
    report = _run(_job(data, output))
    found = _read(output)
    assert sorted(path.relative_to(output).as_posix() for path in output.rglob("*.parquet")) == [
        "2024-03-01/rows.parquet",
        "2024-03-02/rows.parquet",
    ]
    assert list(found.columns) == ["user", "request", "like"]
    assert found["request"].tolist() == list(range(12))
    assert found["user"].tolist() == frame()["user"].tolist()
    np.testing.assert_allclose(found["like"], LIKE, rtol=0, atol=WITHIN)
    assert (report["files"], report["rows"], report["noticed"]) == (2, 12, {})
    assert json.loads((output / REPORT_FILE).read_text()) == report


def test_a_second_job_scores_only_what_is_not_there(data: Path, tmp_path: Path) -> None:
    output = tmp_path / "scores"
    _run(_job(data, output))
    first, second = sorted(output.rglob("*.parquet"))
    second.unlink()
    (second.parent / ".sangam-predict-0123-rows.parquet").write_bytes(b"PAR1 half")
    (output / ".tmp-of-the-user").write_bytes(b"")
    before = first.stat().st_mtime_ns
    assert _run(_job(data, output))["rows"] == 12
    assert first.stat().st_mtime_ns == before
    assert sorted(path.name for path in second.parent.iterdir()) == ["rows.parquet"]
    assert (output / ".tmp-of-the-user").exists()


def test_predictions_of_other_rows_or_options_are_not_mixed(data: Path, tmp_path: Path) -> None:
    output = tmp_path / "scores"
    _run(_job(data, output))
    with pytest.raises(UserError, match=place_and_value("--output", "(got 2024-03-01/rows.parquet)")):
        _run(_job(data, output, keep=[]))
    part = output / "2024-03-02" / "rows.parquet"
    part.write_bytes(part.read_bytes()[:-20])
    with pytest.raises(UserError, match=place_and_value("--output", "(got 2024-03-02/rows.parquet)")):
        _run(_job(data, output))
    assert _run(_job(data, output), overwrite=True)["rows"] == 12
    with pytest.raises(UserError, match=place_and_value("--output", "(got 2024-03-01/rows.parquet)")):
        _run(_job(data / "2024-03-01", output))


def test_a_file_that_does_not_fit_leaves_the_others_scored(data: Path, tmp_path: Path) -> None:
    lines = [json.dumps({"user": "ann", "tags": [], "age": age, "request": 1}) for age in (1, 2)]
    (tmp_path / "lines").mkdir()
    good, bad = tmp_path / "lines" / "a.jsonl", tmp_path / "lines" / "b.jsonl"
    good.write_text("\n".join(lines))
    bad.write_text("\n".join([*lines, json.dumps({"user": "ann", "tags": [], "age": "old"})]))
    output = tmp_path / "scores"
    with pytest.raises(UserError, match=place_and_value(str(bad), '(got "old")')):
        _run(_job(tmp_path / "lines", output))
    part = output / "a.jsonl.parquet"
    written = part.stat().st_mtime_ns
    assert sorted(path.name for path in output.iterdir() if not path.name.startswith(".")) == ["a.jsonl.parquet"]
    bad.write_text("\n".join(lines))
    assert _run(_job(tmp_path / "lines", output))["rows"] == 4
    assert part.stat().st_mtime_ns == written
    assert pq.read_table(part).column_names == ["user", "request", "like"]


@pytest.mark.long
def test_other_formats_give_the_same_scores(tmp_path: Path) -> None:
    rows = frame()
    rows.to_json(tmp_path / "rows.jsonl.gz", orient="records", lines=True)
    _run(_job(tmp_path / "rows.jsonl.gz", tmp_path / "scores"))
    np.testing.assert_allclose(_read(tmp_path / "scores")["like"], LIKE, rtol=0, atol=WITHIN)


def test_what_training_would_refuse_is_counted(tmp_path: Path) -> None:
    rows = pa.table({"user": ["ann", None], "tags": [["t1"], []], "age": [1.0, np.inf]})
    pq.write_table(rows, tmp_path / "a [1].parquet")
    report = _run(_job(tmp_path / "a [1].parquet", tmp_path / "scores"))
    assert report["rows"] == 2
    assert report["noticed"] == {"no value, which training requires: user": 1, "not finite: age": 1}


@pytest.mark.parametrize(
    ("keep", "place", "value"),
    [(["like"], "--keep", "(got 'like')"), (["x"], "--keep", "(got 'x') ... age, like, request, tags, user")],
)
def test_columns_to_keep_are_checked(data: Path, keep: list[str], place: str, value: str) -> None:
    with pytest.raises(UserError, match=place_and_value(place, value)):
        _job(data, data.parent / "scores", keep)


def test_data_that_cannot_be_scored_are_refused_before_the_job(data: Path, tmp_path: Path) -> None:
    for given, place, value in (
        (tmp_path / "none", "DATA", f"(got {tmp_path / 'none'})"),
        (data / "2024-03-01" / "_SUCCESS", str(data / "2024-03-01" / "_SUCCESS"), "(got suffix ''"),
    ):
        with pytest.raises(UserError, match=place_and_value(place, value)):
            _job(given, tmp_path / "scores")
    with pytest.raises(UserError, match=place_and_value("--output", f"(got {data}")):
        _job(data, data)
    wrong = data / "2024-03-03.parquet"
    pq.write_table(pa.table({"user": [1.5], "age": [1.0], "tags": [["a"]]}), wrong)
    with pytest.raises(UserError, match=place_and_value(f"{wrong}: column 'user'", "(got double)")):
        _job(data, tmp_path / "scores")


def test_a_folder_has_one_writer(data: Path, tmp_path: Path) -> None:
    output = tmp_path / "scores"
    output.mkdir()
    with lock.locked(output / lock.LOCK_FILE, "test"), pytest.raises(lock.LockHeld):
        _run(_job(data, output))


@pytest.mark.long
def test_rows_and_predictions_may_be_on_a_store(bucket: Bucket, data: Path) -> None:
    address = bucket.upload(data, "logs")
    output = f"{bucket.uri}/scores"
    assert _run(_job(address, output))["rows"] == 12
    assert bucket.keys("scores") == [
        "scores/2024-03-01/rows.parquet",
        "scores/2024-03-02/rows.parquet",
        f"scores/{REPORT_FILE}",
    ]
    assert _run(_job(f"{address}/*/rows.parquet", output))["rows"] == 12


def test_the_command_scores_and_tells(data: Path, tmp_path: Path) -> None:
    output = tmp_path / "scores"
    request = ["predict", str(FOLDER), f"{data}/*/rows.parquet", "--output", str(output)]
    done = sangam(*request, "--keep", "request", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == 12
    assert pq.read_table(output / "2024-03-01" / "rows.parquet").column_names == ["request", "like"]
    refused = sangam(*request)
    assert refused.returncode == 2
    assert refused.stderr.startswith("--output: ")
