"""Missing values as ingestion writes them, judged against the schema of the spec."""

from pathlib import Path

import pytest

from sangam.schemas.derived.columns import columns
from sangam.schemas.spec import Inputs
from tests.beam_args import BEAM_ARGS
from tests.components.logs.sample_logs import INPUTS, ROWS, Row, table
from tests.errors import place_and_value, tells

pytestmark = pytest.mark.slow


def write_statistics(rows: list[Row], path: Path, inputs: Inputs) -> None:
    """Writes the statistics of rows as ingestion writes them."""
    import apache_beam as beam
    import tensorflow_data_validation as tfdv
    from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder, RecordBatchToExamples

    from sangam.components.logs.rows.conversion import convert

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

    from sangam.components.steps.example_validator.executor import Executor
    from sangam.components.steps.schema_gen.executor import Executor as SchemaGenExecutor

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


@pytest.mark.long
def test_nulls_and_empty_lists_where_they_are_allowed_are_no_anomaly(tmp_path: Path) -> None:
    from tensorflow_metadata.proto.v0 import anomalies_pb2

    validate(ROWS, tmp_path / "some")
    nothing: Row = {"post": None, "tags": None, "history": [], "price": None}
    validate([{**row, **nothing} for row in ROWS], tmp_path / "all")
    for name in ("some", "all"):
        [found] = (tmp_path / name / "anomalies").rglob("*.pb")
        assert not anomalies_pb2.Anomalies.FromString(found.read_bytes()).anomaly_info


def test_a_null_in_a_required_column_is_an_anomaly(tmp_path: Path) -> None:
    from sangam.components.steps.example_validator.anomalies import DataAnomalies

    with pytest.raises(DataAnomalies) as error:
        validate([*ROWS, {**ROWS[0], "hour": None, "user": None}], tmp_path)
    lines = str(error.value).splitlines()
    assert [line.split(":")[1] for line in lines] == [" column 'hour'", " column 'user'"]
    assert tells(
        lines[0],
        "split 'train': column 'hour'",
        "1.000000 ... 0.800000)",
    )


@pytest.mark.long
def test_a_vector_may_be_missing_where_that_is_declared_and_nowhere_else(tmp_path: Path) -> None:
    from sangam.components.steps.example_validator.anomalies import DataAnomalies

    def declared(**missing: float) -> Inputs:
        features = {"v": {"kind": "vector", "dim": 2} | missing}
        return Inputs.model_validate({"features": features, "tasks": {"buy": {"kind": "binary", "only_where": "seen"}}})

    rows: list[Row] = [{"v": [1.0, 2.0], "buy": 0, "seen": 1}, {"v": None, "buy": 1, "seen": None}]
    validate(rows, tmp_path / "may", declared(missing=0.0))
    with pytest.raises(DataAnomalies, match=place_and_value("column 'v'", "1.000000 ... 0.500000")):
        validate(rows, tmp_path / "must", declared())
