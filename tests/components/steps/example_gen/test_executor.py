"""Ingestion, statistics and validation as TFX runs them; the Beam runs are shared by the tests of the module."""

import datetime
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pipelines.beam import BEAM_ARGS
from schemas.derived.columns import columns
from schemas.errors import UserError
from schemas.loading import load_spec
from schemas.spec import Inputs
from schemas.spec.data import DayLogs, Logs
from tests.components.steps.example_gen.sample_logs import (
    INPUTS,
    ROWS,
    SUFFIX,
    Row,
    day_logs,
    expected,
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
    from tfx.types import standard_artifacts

    from components.steps.example_gen.executor import Executor

    examples = standard_artifacts.Examples()
    examples.uri = str(uri)
    executor = Executor(Executor.Context(beam_pipeline_args=list(BEAM_ARGS)))
    executor.Do({}, {"examples": [examples]}, properties(logs, root, **settings))
    return examples


def written(examples: Any, split: str) -> list[dict[str, list[Any]]]:
    """Returns the values of every Example of a split; a feature without values is left out."""
    import tensorflow as tf

    files = sorted(str(path) for path in Path(examples.uri, f"Split-{split}").iterdir())
    found = []
    for record in tf.data.TFRecordDataset(files, compression_type="GZIP").as_numpy_iterator():
        features = tf.train.Example.FromString(record).features.feature
        values = {
            name: list(getattr(feature, feature.WhichOneof("kind")).value)
            for name, feature in features.items()
            if feature.WhichOneof("kind")
        }
        found.append({name: each for name, each in values.items() if each})
    return found


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
    from components.steps.example_gen import sources

    monkeypatch.setattr(sources, "_ROWS_PER_FILE", 5)
    rows = [{**ROWS[0], "hour": number} for number in range(3 * 7)]
    for number, (day, part) in enumerate([(DAYS[0], 0), (DAYS[0], 1), (DAYS[1], 0)]):
        write(tmp_path / "logs" / day / f"part-{part}.parquet", "parquet", rows[7 * number : 7 * number + 7])
    write_days(tmp_path / "logs", "parquet", {DATE: ROWS})
    examples = ingest(day_logs(), tmp_path / "logs", tmp_path / "out")
    assert [row.get("hour", [0])[0] for row in written(examples, "train")] == list(range(3 * 7))
    names = sorted(path.name for path in (tmp_path / "out" / "Split-train").iterdir())
    # Seven rows of each file, five in the first of its two files.
    places = [(DAYS[0], 0), (DAYS[0], 1), (DAYS[1], 2)]
    assert names == [f"data_tfrecord-{day}-{n:05d}-{part:05d}.gz" for day, n in places for part in (0, 1)]


def test_the_report_accounts_for_every_row_and_day(ingested: Any) -> None:
    from components.reports.artifact_files import read_ingestion

    report = read_ingestion(ingested.uri)
    assert report.date == DATE
    assert report.days == {"train": DAYS[:1], "eval": [DATE]}
    assert report.missing_days == ["2024-02-29"]
    assert report.splits["train"].model_dump() == {
        "num_files": 1,
        "rows_read": 3,
        "rows_written": 3,
        "dropped": {},
        "ignored": {},
        "negatives": 0,
        "negatives_sampled_out": 0,
    }
    assert report.splits["eval"].rows_read == 2
    assert report.splits["eval"].dropped == {"label missing: like": 1}


def test_the_artifact_says_what_it_holds(ingested: Any) -> None:
    assert ingested.split_names == '["train", "eval"]'
    assert ingested.get_string_custom_property("payload_format") == "FORMAT_TF_EXAMPLE"
    assert ingested.get_string_custom_property("date") == DATE
    names = sorted(path.relative_to(ingested.uri).as_posix() for path in Path(ingested.uri).rglob("*.*"))
    assert names == [
        f"Split-eval/data_tfrecord-{DATE}-00000-00000.gz",
        f"Split-train/data_tfrecord-{DAYS[0]}-00000-00000.gz",
        "ingestion.json",
    ]


def test_negatives_are_sampled_in_the_train_split_alone_and_the_same_wherever_the_data_lies(tmp_path: Path) -> None:
    from components.reports.artifact_files import read_ingestion

    task = {"click": {"kind": "binary", "keep_negatives": 0.25}}
    inputs = Inputs.model_validate({"features": {"n": {"kind": "numeric", "type": "int"}}, "tasks": task})
    rows = [{"n": number, "click": int(number % 5 == 0)} for number in range(1_000)]
    kept = []
    for name in ("here", "there"):
        write_days(tmp_path / name, "parquet", dict.fromkeys(DAYS, rows))
        logs = day_logs(validation_days=1, max_dropped_fraction=0.0)
        examples = ingest(logs, tmp_path / name, tmp_path / f"{name}_out", inputs=inputs)
        kept.append({split: as_set(written(examples, split)) for split in ("train", "validation", "eval")})
    assert kept[0] == kept[1]
    assert kept[0]["validation"].total() == kept[0]["eval"].total() == 1_000
    report = read_ingestion(examples.uri)
    train = report.splits["train"]
    assert report.days == {"train": DAYS[:1], "validation": DAYS[1:2], "eval": [DATE]}
    assert (train.rows_read, train.negatives, train.dropped) == (1_000, 800, {})
    assert train.rows_written == 1_000 - train.negatives_sampled_out == kept[0]["train"].total()
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

    from components.steps.example_gen.executor import Executor

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
    from components.steps.example_gen import executor

    write_days(tmp_path / "logs", "parquet", dict.fromkeys(DAYS, ROWS))
    planned = executor.plan

    def plan_and_write(*given: Any) -> Any:
        plan = planned(*given)
        write_days(tmp_path / "logs", "parquet", {DATE: ROWS * 100})
        return plan

    monkeypatch.setattr(executor, "plan", plan_and_write)
    text = rf"{DATE}/part-0.parquet: .*\(got \d+ bytes, then \d+\)"
    with pytest.raises(UserError, match=text):
        ingest(day_logs(), tmp_path / "logs", tmp_path / "out")
    assert not (tmp_path / "out" / "ingestion.json").exists()


def test_a_store_that_beam_knows_is_listed_once_a_day_with_sizes_and_times(tmp_path: Path) -> None:
    from apache_beam.io.filesystem import FileMetadata, MatchResult
    from apache_beam.io.localfilesystem import LocalFileSystem

    from components.steps.example_gen.files.listing import FileFacts, OneListing
    from components.steps.example_gen.files.resolve import days_with_files, resolve
    from components.steps.example_gen.files.storage import TfxStorage

    asked = []

    class Store(LocalFileSystem):  # Beam finds it by its scheme.
        @classmethod
        def scheme(cls) -> str:
            return "store"

        def match(self, patterns: Any, limits: Any = None) -> Any:  # noqa: ARG002
            asked.extend(patterns)
            of_day = [pattern.replace("*.parquet", f"{number}.parquet") for pattern in patterns for number in "21"]
            folder = patterns[0].replace("*.parquet", "")
            return [MatchResult(patterns[0], [FileMetadata(path, 7, 1.5) for path in [*of_day, folder]])]

    storage = OneListing(TfxStorage())
    days = [datetime.date.fromisoformat(day) for day in DAYS]
    assert days_with_files(day_logs(), days, "store://bucket", storage) == days
    files = resolve(day_logs(), DATE, "store://bucket", storage).files
    assert [file.path for file in files[:2]] == [f"store://bucket/{DAYS[0]}/{number}.parquet" for number in "12"]
    assert {file.facts for file in files} == {FileFacts(7, 1_500_000_000)}
    assert sorted(asked) == [f"store://bucket/{day}/*.parquet" for day in DAYS]


def driven(root: Path, logs: DayLogs, date: str = DATE) -> dict[str, str]:
    from tfx.orchestration.portable.data_types import ExecutionInfo

    from components.steps.example_gen.driver import Driver

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
    from components.steps.example_gen.component import ExampleGen

    component = ExampleGen(spec=load_spec(SPECS / "online_retail.yaml"), date=DATE, data_root="d", pipeline_root="p")
    assert set(component.exec_properties) >= {"logs", "inputs", "date", "data_root", "mode", "code"}
    assert list(component.outputs) == ["examples"]


def test_a_file_of_any_file_system_is_a_whole_file_object(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    from components.steps.example_gen.files.storage import remote_file

    path = write(tmp_path / "data", "parquet", ROWS)
    with remote_file(str(path)) as file:
        assert pq.ParquetFile(file).read().equals(table(ROWS))


def write_statistics(rows: list[Row], path: Path, inputs: Inputs) -> None:
    """Writes the statistics of rows as ingestion writes them."""
    import apache_beam as beam
    import tensorflow_data_validation as tfdv
    from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder, RecordBatchToExamples

    from components.steps.example_gen.rows.conversion import convert

    (batch,) = table(rows).to_batches()
    serialized = RecordBatchToExamples(convert(batch, columns(inputs), "rows").batch)
    decoded = ExamplesToRecordBatchDecoder().DecodeBatch(serialized)
    path.parent.mkdir(parents=True)
    with beam.Pipeline(argv=list(BEAM_ARGS)) as pipeline:
        _ = (
            pipeline
            | beam.Create([decoded], reshuffle=False)
            | tfdv.GenerateStatistics(tfdv.StatsOptions())
            | tfdv.WriteStatisticsToBinaryFile(str(path))
        )


def validate(rows: list[Row], root: Path, inputs: Inputs = INPUTS) -> None:
    """Validates the statistics of rows against the schema of the spec."""
    from tfx.types import artifact_utils, standard_artifacts

    from components.steps.example_validator.executor import Executor
    from components.steps.schema_gen.executor import Executor as SchemaGenExecutor

    statistics, schema = standard_artifacts.ExampleStatistics(), standard_artifacts.Schema()
    anomalies = standard_artifacts.ExampleAnomalies()
    statistics.uri, schema.uri, anomalies.uri = (str(root / name) for name in ("statistics", "schema", "anomalies"))
    statistics.split_names = artifact_utils.encode_split_names(["train"])
    write_statistics(rows, root / "statistics" / "Split-train" / "FeatureStats.pb", inputs)
    SchemaGenExecutor().Do({}, {"schema": [schema]}, {"inputs": inputs.model_dump_json()})
    Executor().Do(
        {"statistics": [statistics], "schema": [schema]},
        {"anomalies": [anomalies]},
        {"inputs": inputs.model_dump_json(), "drift": ""},
    )


def test_nulls_and_empty_lists_where_they_are_allowed_are_no_anomaly(tmp_path: Path) -> None:
    from tensorflow_metadata.proto.v0 import anomalies_pb2

    validate(ROWS, tmp_path / "some")
    nothing: Row = {"post": None, "tags": None, "history": [], "price": None}
    validate([{**row, **nothing} for row in ROWS], tmp_path / "all")
    for name in ("some", "all"):
        [found] = (tmp_path / name / "anomalies").rglob("*.pb")
        assert not anomalies_pb2.Anomalies.FromString(found.read_bytes()).anomaly_info


def test_a_null_in_a_required_column_is_an_anomaly(tmp_path: Path) -> None:
    from components.steps.example_validator.anomalies import DataAnomalies

    with pytest.raises(DataAnomalies) as error:
        validate([*ROWS, {**ROWS[0], "hour": None, "user": None}], tmp_path)
    lines = str(error.value).splitlines()
    assert [line.split(":")[1] for line in lines] == [" column 'hour'", " column 'user'"]
    assert tells(
        lines[0],
        "split 'train': column 'hour'",
        "1.000000 ... 0.800000)",
    )


def test_a_vector_may_be_missing_where_that_is_declared_and_nowhere_else(tmp_path: Path) -> None:
    from components.steps.example_validator.anomalies import DataAnomalies

    def declared(**missing: float) -> Inputs:
        features = {"v": {"kind": "vector", "dim": 2} | missing}
        return Inputs.model_validate({"features": features, "tasks": {"buy": {"kind": "binary", "only_where": "seen"}}})

    rows: list[Row] = [{"v": [1.0, 2.0], "buy": 0, "seen": 1}, {"v": None, "buy": 1, "seen": None}]
    validate(rows, tmp_path / "may", declared(missing=0.0))
    with pytest.raises(DataAnomalies, match=place_and_value("column 'v'", "1.000000 ... 0.500000")):
        validate(rows, tmp_path / "must", declared())


@pytest.mark.real_data
def test_a_missing_real_day_is_counted(tmp_path: Path) -> None:
    lines = REAL_DATA / "online_retail" / "lines"
    if not lines.exists():
        pytest.skip(f"no {lines}")
    from components.reports.artifact_files import read_ingestion

    spec = load_spec(SPECS / "online_retail.yaml")
    assert isinstance(spec.data, DayLogs)
    examples = ingest(spec.data.model_copy(update={"train_days": 6}), lines, tmp_path, inputs=spec, date="2011-11-30")
    report = read_ingestion(examples.uri)
    assert report.missing_days == ["2011-11-26"]
    assert len(report.days["train"]) == 5
    assert report.splits["eval"].rows_written == 2120
