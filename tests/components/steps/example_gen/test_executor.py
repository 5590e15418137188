"""Ingestion, statistics and validation as TFX runs them; the Beam runs are shared by the tests of the module."""

import datetime
import os
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sangam.schemas.derived.columns import columns
from sangam.schemas.errors import UserError
from sangam.schemas.loading import load_spec
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.data import DayLogs, Logs, SplitLogs
from tests.components.examples.sample_files import read_examples
from tests.components.logs.sample_logs import (
    BEAM_ARGS,
    INPUTS,
    ROWS,
    SUFFIX,
    day_logs,
    expected,
    run_executor,
    table,
    write,
    write_days,
    write_records,
)
from tests.errors import place_and_value, tells
from tests.paths import SHARED_DATA, SPECS

pytestmark = pytest.mark.slow

DATE = "2024-03-01"
DAYS = ["2024-02-28", "2024-02-29", DATE]
COLUMNS = columns(INPUTS)
REAL_DATA = SHARED_DATA


def properties(logs: Logs, root: Path, inputs: Inputs = INPUTS, date: str = DATE) -> dict[str, Any]:
    return {
        "logs": logs.model_dump_json(),
        "inputs": inputs.inputs().model_dump_json(),
        "date": date,
        "data_root": str(root),
        "name": "tiny",
        "mode": "full",
        "pipeline_root": str(root.parent / "root"),
        "code": "",
    }


def ingest(logs: Logs, root: Path, uri: Path, **settings: Any) -> Any:
    """Runs the executor; returns the Examples artifact."""
    return run_executor(properties(logs, root, **settings), uri)


def written(examples: Any, split: str) -> list[dict[str, list[Any]]]:
    return read_examples(examples.uri, split)


def as_set(rows: list[dict[str, list[Any]]]) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in rows)


@pytest.fixture(scope="module", params=["parquet", "csv", "tfrecord"])
def ingested(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    root, uri = tmp_path_factory.mktemp("logs"), tmp_path_factory.mktemp("examples")
    write_days(root, request.param, {DAYS[0]: ROWS[:3], DATE: [ROWS[3], {**ROWS[2], "like": None}]})
    return ingest(day_logs(request.param, missing_days="skip", max_dropped_fraction=0.5), root, uri)


def test_every_format_gives_the_same_examples_in_the_order_of_the_logs(ingested: Any) -> None:
    assert written(ingested, "train") == [expected(row, COLUMNS) for row in ROWS[:3]]
    assert written(ingested, "eval") == [expected(ROWS[3], COLUMNS)]


def test_days_files_and_rows_stay_in_their_order_however_they_are_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sangam.components.examples import writer
    from sangam.components.examples.listing import read_listing
    from sangam.components.steps.example_gen import file_groups

    monkeypatch.setattr(file_groups, "_ROWS_PER_GROUP", 5)
    monkeypatch.setattr(writer, "BLOCK_ROWS", 4)
    rows = [{**ROWS[0], "hour": number} for number in range(3 * 7)]
    for number, (day, part) in enumerate([(DAYS[0], 0), (DAYS[0], 1), (DAYS[1], 0)]):
        write(tmp_path / "logs" / day / f"part-{part}.parquet", "parquet", rows[7 * number : 7 * number + 7])
    write_days(tmp_path / "logs", "parquet", {DATE: ROWS})
    examples = ingest(day_logs(), tmp_path / "logs", tmp_path / "out")
    assert [row.get("hour", [0])[0] for row in written(examples, "train")] == list(range(3 * 7))
    names = [Path(file).name for file in read_listing(examples.uri).files("train")]
    assert names == [f"examples-{day}-{n:05d}-00000.blocks" for day, n in ((DAYS[0], 0), (DAYS[0], 1), (DAYS[1], 0))]


def test_the_report_accounts_for_every_row_and_day(ingested: Any) -> None:
    from sangam.components.reports.artifact_files import read_ingestion

    report = read_ingestion(ingested.uri)
    assert report.date == DATE
    assert report.days == {"train": DAYS[:1], "eval": [DATE]}
    assert report.missing_days == ["2024-02-29"]
    assert report.splits["train"].model_dump() == {
        "num_files": 1,
        "read": 3,
        "written": 3,
        "dropped": {},
        "ignored": {},
        "negatives": 0,
        "negatives_sampled_out": 0,
        "candidates": {},
        "joined": {},
    }
    assert report.splits["eval"].read == 2
    assert report.splits["eval"].dropped == {"label missing: like": 1}


def test_the_artifact_says_what_it_holds(ingested: Any) -> None:
    assert ingested.split_names == '["train", "eval"]'
    assert ingested.get_string_custom_property("date") == DATE
    assert sorted(path.name for path in Path(ingested.uri).iterdir()) == ["examples.json", "ingestion.json"]


def test_negatives_are_sampled_in_the_train_split_alone_and_the_same_wherever_the_data_lies(tmp_path: Path) -> None:
    from sangam.components.reports.artifact_files import read_ingestion

    task = {"click": {"kind": "binary", "keep_negatives": 0.25}}
    inputs = Inputs.model_validate(
        {"features": {"n": {"kind": "numeric", "normalize": "zscore", "type": "int"}}, "tasks": task}
    )
    rows = [{"n": number, "click": int(number % 5 == 0)} for number in range(1_000)]
    kept = []
    for name in ("here", "there"):
        write_days(tmp_path / name / "logs", "parquet", dict.fromkeys(DAYS, rows))
        logs = day_logs(validation_days=1, max_dropped_fraction=0.0)
        examples = ingest(logs, tmp_path / name / "logs", tmp_path / f"{name}_out", inputs=inputs)
        kept.append({split: as_set(written(examples, split)) for split in ("train", "validation", "eval")})
    assert kept[0] == kept[1]
    assert kept[0]["validation"].total() == kept[0]["eval"].total() == 1_000
    report = read_ingestion(examples.uri)
    train = report.splits["train"]
    assert report.days == {"train": DAYS[:1], "validation": DAYS[1:2], "eval": [DATE]}
    assert (train.read, train.negatives, train.dropped) == (1_000, 800, {})
    assert train.written == 1_000 - train.negatives_sampled_out == kept[0]["train"].total()
    # Within four standard deviations of 0.25.
    assert train.kept_negatives == pytest.approx(0.25, abs=0.062)
    assert report.splits["eval"].kept_negatives is None


def test_mistakes_met_while_reading_end_the_run_with_their_text_alone(tmp_path: Path) -> None:
    write_days(tmp_path, "csv", dict.fromkeys(DAYS, ROWS))
    for day, line in ((DAYS[0], "too,few\n"), (DAYS[2], "u,x,,,1,2,0,1,n\n")):
        with (tmp_path / day / "part-0.csv").open("a") as file:
            file.write(line)
    with pytest.raises(UserError) as error:
        ingest(day_logs("csv"), tmp_path, tmp_path / "out")
    first, second = str(error.value).splitlines()
    assert tells(first, f"{tmp_path}/2024-02-28/part-0.csv: line 6", "(got 2)")
    assert tells(second, f"{tmp_path}/2024-03-01/part-0.csv: line 6: column 'post'", "(got 'x')")
    assert not (tmp_path / "out" / "ingestion.json").exists()


def test_too_many_unreadable_records_end_the_run(tmp_path: Path) -> None:
    write_days(tmp_path, "tfrecord", dict.fromkeys(DAYS, ROWS))
    write_records(tmp_path / DATE / f"bad.{SUFFIX['tfrecord']}", [b"garbage"])
    with pytest.raises(UserError, match=place_and_value("...", "(1) (got 0.2)")):
        ingest(day_logs("tfrecord"), tmp_path, tmp_path / "out")


def test_files_that_changed_since_the_run_began_end_it(tmp_path: Path) -> None:
    from tfx.types import standard_artifacts

    from sangam.components.steps.example_gen.executor import Executor

    write_days(tmp_path, "parquet", dict.fromkeys(DAYS, ROWS))
    examples = standard_artifacts.Examples()
    examples.uri = str(tmp_path / "out")
    with pytest.raises(UserError, match=place_and_value("...", "since the run began")):
        Executor().Do(
            {}, {"examples": [examples]}, properties(day_logs(), tmp_path) | {"fingerprint": "of other files"}
        )


def test_a_file_that_is_written_while_it_is_read_ends_the_run_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sangam.components.steps.example_gen import executor

    write_days(tmp_path / "logs", "parquet", dict.fromkeys(DAYS, ROWS))
    inspect = executor.inspect

    def inspect_and_write(*given: Any) -> Any:
        inspected = inspect(*given)
        write_days(tmp_path / "logs", "parquet", {DATE: ROWS * 100})
        return inspected

    monkeypatch.setattr(executor, "inspect", inspect_and_write)
    text = rf"{DATE}/part-0.parquet: .*\(got \d+ bytes, then \d+\)"
    with pytest.raises(UserError, match=text):
        ingest(day_logs(), tmp_path / "logs", tmp_path / "out")
    assert not (tmp_path / "out" / "ingestion.json").exists()
    assert not list((tmp_path / "root").rglob("*.blocks"))


def test_a_store_that_beam_knows_is_listed_once_a_day_with_sizes_and_times(tmp_path: Path) -> None:
    from apache_beam.io.filesystem import FileMetadata, MatchResult
    from apache_beam.io.localfilesystem import LocalFileSystem

    from sangam.components.logs.files.listing import FileFacts, OneListing
    from sangam.components.logs.files.resolve import days_with_files, resolve
    from sangam.components.logs.files.storage import TfxStorage

    asked = []

    class Store(LocalFileSystem):  # Beam finds it by its scheme.
        @classmethod
        def scheme(cls) -> str:
            return "store"

        def match(self, patterns: Any, limits: Any = None) -> Any:  # noqa: ARG002
            asked.extend(patterns)
            if not patterns[0].endswith("*.parquet"):
                return [MatchResult(patterns[0], [])]
            of_day = [pattern.replace("*.parquet", f"{number}.parquet") for pattern in patterns for number in "21"]
            folder = patterns[0].replace("*.parquet", "")
            return [MatchResult(patterns[0], [FileMetadata(path, 7, 1.5) for path in [*of_day, folder]])]

    storage = OneListing(TfxStorage())
    days = [datetime.date.fromisoformat(day) for day in DAYS]
    assert days_with_files(day_logs(), days, "store://bucket", storage) == days
    files = resolve(day_logs(), DATE, "store://bucket", storage).files
    assert [file.path for file in files[:2]] == [f"store://bucket/{DAYS[0]}/{number}.parquet" for number in "12"]
    assert {file.facts for file in files} == {FileFacts(7, 1_500_000_000)}
    assert [each for each in sorted(asked) if each.endswith("*.parquet")] == [
        f"store://bucket/{day}/*.parquet" for day in DAYS
    ]
    # Logs of table formats are looked for in the folders of the first and the last file, and above them.
    assert len(asked) == 3 + 3 * 3


def test_a_window_that_moves_reads_its_new_day_alone_and_gives_what_reading_all_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sangam.components.steps.example_gen import executor

    days = [*DAYS, "2024-03-02"]
    for number, day in enumerate(days):
        write_days(tmp_path / "logs", "parquet", {day: [{**row, "hour": number} for row in ROWS]})
    read: list[str] = []
    read_and_write = executor._read_and_write

    def counted(pipeline: Any, groups: Any, *given: Any) -> None:
        read.extend(group.day for group in groups)
        read_and_write(pipeline, groups, *given)

    monkeypatch.setattr(executor, "_read_and_write", counted)
    ingest(day_logs(), tmp_path / "logs", tmp_path / "first")
    assert read == DAYS
    read.clear()
    moved = ingest(day_logs(), tmp_path / "logs", tmp_path / "second", date=days[-1])
    assert read == days[-1:]
    by_days = {split: written(moved, split) for split in ("train", "eval")}
    shutil.rmtree(tmp_path / "root")
    at_once = ingest(day_logs(), tmp_path / "logs", tmp_path / "third", date=days[-1])
    assert by_days == {split: written(at_once, split) for split in by_days}
    assert (tmp_path / "second" / "ingestion.json").read_text() == (tmp_path / "third" / "ingestion.json").read_text()

    read.clear()
    write_days(tmp_path / "logs", "parquet", {DATE: ROWS[:2]})
    changed = ingest(day_logs(), tmp_path / "logs", tmp_path / "fourth", date=days[-1])
    assert read == [DATE]
    assert len(written(changed, "train")) == len(written(at_once, "train")) - 2


def test_examples_that_were_removed_are_made_again(tmp_path: Path) -> None:
    write_days(tmp_path / "logs", "parquet", dict.fromkeys(DAYS, ROWS))
    ingest(day_logs(), tmp_path / "logs", tmp_path / "first")
    before = driven(tmp_path / "logs", day_logs())
    for path in (tmp_path / "root").rglob(f"*{DATE}*.blocks"):
        path.unlink()
    with pytest.raises(UserError, match=place_and_value("....blocks", "no such file")):
        written(SimpleNamespace(uri=str(tmp_path / "first")), "eval")
    assert written(ingest(day_logs(), tmp_path / "logs", tmp_path / "second"), "eval") == [
        expected(row, COLUMNS) for row in ROWS
    ]
    assert driven(tmp_path / "logs", day_logs()) == before
    shutil.rmtree(tmp_path / "root" / "examples")
    assert driven(tmp_path / "logs", day_logs())["generation"] != before["generation"]


def driven(root: Path, logs: DayLogs, date: str = DATE) -> dict[str, str]:
    from tfx.orchestration.portable.data_types import ExecutionInfo

    from sangam.components.steps.example_gen.driver import Driver

    output = Driver(None).run(ExecutionInfo(exec_properties=properties(logs, root, date=date)))
    return {name: value.string_value for name, value in output.exec_properties.items()}


def test_the_driver_adds_a_fingerprint_that_changes_with_the_content_of_files_alone(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    write_days(logs, "parquet", dict.fromkeys(DAYS, ROWS))
    first = driven(logs, day_logs())
    assert first == driven(logs, day_logs())
    assert first["date"] == DATE
    assert first["code"] == ""
    os.utime(logs / DATE / "part-0.parquet", ns=(1, 1))
    assert driven(logs, day_logs())["fingerprint"] == first["fingerprint"]
    write_days(logs, "parquet", {DATE: ROWS[:3]})
    assert driven(logs, day_logs())["fingerprint"] != first["fingerprint"]


def test_without_a_date_the_driver_takes_yesterday(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no rows on any day"):
        driven(tmp_path, day_logs(), date="")


def test_the_component_declares_what_the_executor_reads() -> None:
    from sangam.components.steps.example_gen.component import ExampleGen

    component = ExampleGen(spec=load_spec(SPECS / "online_retail.yaml"), date=DATE, data_root="d", pipeline_root="p")
    assert set(component.exec_properties) >= {"logs", "inputs", "date", "data_root", "mode", "code"}
    assert list(component.outputs) == ["examples"]


def test_a_file_of_any_file_system_is_a_whole_file_object(tmp_path: Path) -> None:
    import pyarrow.parquet as pq
    from tfx.dsl.io import fileio

    from sangam.components.object_stores import whole_file

    path = write(tmp_path / "data", "parquet", ROWS)
    with whole_file(fileio.open(str(path), "rb")) as file:
        assert pq.ParquetFile(file).read().equals(table(ROWS))


@pytest.mark.real_data
def test_a_missing_real_day_is_counted(tmp_path: Path) -> None:
    lines = REAL_DATA / "online_retail" / "lines"
    if not lines.exists():
        pytest.skip(f"no {lines}")
    from sangam.components.reports.artifact_files import read_ingestion

    spec = load_spec(SPECS / "online_retail.yaml")
    assert isinstance(spec.data, DayLogs)
    # The root lies beside the logs' folder: not beside the real one, which others share.
    (tmp_path / "lines").symlink_to(lines)
    logs = spec.data.model_copy(update={"train_days": 6})
    examples = ingest(logs, tmp_path / "lines", tmp_path / "examples", inputs=spec, date="2011-11-30")
    report = read_ingestion(examples.uri)
    assert report.missing_days == ["2011-11-26"]
    assert len(report.days["train"]) == 5
    assert report.splits["eval"].written == 2120


def _held_out(root: Path, uri: Path, fraction: float = 0.2, beam_args: Sequence[str] = BEAM_ARGS) -> Any:
    splits = {"train": "train/*.parquet", "eval": "eval/*.parquet", "validation": {"fraction": fraction}}
    logs = SplitLogs.model_validate({"kind": "splits", "format": "parquet", "splits": splits})
    # A root for each folder of results: nothing is found in a store.
    return run_executor(properties(logs, root) | {"pipeline_root": str(uri / "root")}, uri, beam_args)


def test_a_share_of_the_train_rows_is_the_validation_split_and_not_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sangam.components.reports.artifact_files import read_ingestion
    from sangam.components.steps.example_gen import file_groups

    def hours(examples: Any, split: str) -> list[int]:
        return [row.get("hour", [0])[0] for row in written(examples, split)]

    shared = tmp_path / "logs"
    rows = [{**ROWS[number % 3], "hour": number} for number in range(400)]
    for name, of_file in (("train/a", rows[:250]), ("train/b", rows[250:]), ("eval/a", rows[:4])):
        write(shared / f"{name}.parquet", "parquet", of_file)
    alone = _held_out(shared, tmp_path / "alone")
    trained, held_out = hours(alone, "train"), hours(alone, "validation")
    assert sorted(trained + held_out) == list(range(400))
    assert (trained, held_out) == (sorted(trained), sorted(held_out))
    assert 60 <= len(held_out) <= 100
    assert hours(alone, "eval") == list(range(4))
    report = read_ingestion(alone.uri).splits
    assert [(each.read, each.written, each.dropped) for each in report.values()] == [
        (number, number, {}) for number in (len(trained), len(held_out), 4)
    ]
    # Two workers, and groups of a file each.
    monkeypatch.setattr(file_groups, "_ROWS_PER_GROUP", 10)
    workers = ["--direct_running_mode=multi_threading", "--direct_num_workers=2"]
    together = _held_out(shared, tmp_path / "together", beam_args=workers)
    assert sorted(hours(together, "validation")) == held_out
    assert sorted(hours(together, "train")) == trained
    # Rows that a smaller share holds out are among those of a larger one.
    assert set(hours(_held_out(shared, tmp_path / "less", 0.1), "validation")) < set(held_out)
