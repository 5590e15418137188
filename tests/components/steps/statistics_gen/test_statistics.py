"""Statistics put together from days are those that TensorFlow Data Validation computes of all rows at once."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.beam_args import BEAM_ARGS

pytestmark = pytest.mark.slow

DAYS = ["2024-03-01", "2024-03-02", "2024-03-03"]
OPTIONS = {"num_quantiles_histogram_buckets": 100, "epsilon": 0.0025}
_KINDS = {"int": pa.int64(), "float": pa.float32(), "string": pa.large_binary()}
COLUMNS = {
    "number": "float",
    "odd": "float",
    "count": "int",
    "user": "int",
    "word": "string",
    "tags": "string",
    "never": "float",
    "unknown": "string",
}


def schema() -> Any:
    from tensorflow_metadata.proto.v0 import schema_pb2

    types = {"int": schema_pb2.INT, "float": schema_pb2.FLOAT, "string": schema_pb2.BYTES}
    found = schema_pb2.Schema(feature=[schema_pb2.Feature(name=name, type=types[of]) for name, of in COLUMNS.items()])
    for feature in found.feature:
        feature.int_domain.is_categorical = feature.name == "user"
        if feature.name != "user":
            feature.ClearField("int_domain")
    return found


def rows_of_day(seed: int, num: int = 3000) -> pa.RecordBatch:
    random = np.random.default_rng(seed)

    def some(values: Any) -> list[Any]:
        return [[value] if given else None for value, given in zip(values, random.random(num) < 0.9, strict=True)]

    odd = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40, 3e38, 7.0])
    words = [f"w{number}".encode() for number in range(500)] + [b"\xff\xfe"]
    values: dict[str, Any] = {
        "number": some(random.normal(loc=3.0, size=num)),
        "odd": some(odd[random.integers(len(odd), size=num)]),
        "count": some(random.geometric(0.1, size=num)),
        "user": some(random.integers(-200, 700, size=num)),
        "word": some([words[each] for each in random.zipf(1.5, size=num) % len(words)]),
        "tags": [
            [words[each] for each in random.integers(50, size=size)] or None for size in random.integers(6, size=num)
        ],
        "never": [None] * num,
        "unknown": [None] * num,
    }
    columns = [pa.array(values[name], pa.list_(_KINDS[of])) for name, of in COLUMNS.items()]
    return pa.RecordBatch.from_arrays(columns, list(COLUMNS))


def write_day(folder: Path, day: str, batch: pa.RecordBatch) -> Any:
    """Writes a day's examples in files of two blocks at most."""
    from sangam.components.examples.listing import DayExamples
    from sangam.components.examples.writer import BlockWriter

    folder.mkdir(parents=True)
    with BlockWriter(str(folder), day, 0, bytes_per_file=20_000) as writer:
        writer.write(batch)
    return DayExamples(day=day, folder=str(folder), names=tuple(writer.names), rows=writer.rows)


def statistics_of(root: Path, days: list[Any]) -> dict[str, Any]:
    """Runs the step over a training split of these days, and returns the statistics by column."""
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import statistics_pb2
    from tfx.types import standard_artifacts

    from sangam.components.examples.listing import Listing, write_listing
    from sangam.components.steps.statistics_gen.executor import Executor, Options

    made = {kind: getattr(standard_artifacts, kind)() for kind in ("Examples", "Schema", "ExampleStatistics")}
    for kind, artifact in made.items():
        artifact.uri = str(root / kind)
        (root / kind).mkdir(parents=True)
    made["Examples"].split_names = '["train"]'
    write_listing(made["Examples"].uri, Listing(splits={"train": tuple(days)}))
    (root / "Schema" / "schema.pbtxt").write_text(text_format.MessageToString(schema()))
    Executor(Executor.Context(beam_pipeline_args=list(BEAM_ARGS))).Do(
        {"examples": [made["Examples"]], "schema": [made["Schema"]]},
        {"statistics": [made["ExampleStatistics"]]},
        {"options": Options.model_validate(OPTIONS).model_dump_json(), "code": "c"},
    )
    assert made["ExampleStatistics"].split_names == '["train"]'
    content = (root / "ExampleStatistics" / "Split-train" / "FeatureStats.pb").read_bytes()
    [dataset] = statistics_pb2.DatasetFeatureStatisticsList.FromString(content).datasets
    assert dataset.num_examples == sum(day.rows for day in days)
    return {feature.path.step[0]: feature for feature in dataset.features}


def bytes_of(statistics: dict[str, Any]) -> list[bytes]:
    """Returns what is compared: a NaN of a message is not equal to itself."""
    return [column.SerializeToString(deterministic=True) for column in statistics.values()]


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    root = tmp_path_factory.mktemp("days")
    return [write_day(root / day, day, rows_of_day(seed)) for seed, day in enumerate(DAYS)]


@pytest.fixture(scope="module")
def ours(days: list[Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return statistics_of(tmp_path_factory.mktemp("run"), days)


@pytest.fixture(scope="module")
def theirs() -> dict[str, Any]:
    import tensorflow_data_validation as tfdv
    from tensorflow_data_validation.statistics.stats_impl import generate_statistics_in_memory

    table = pa.Table.from_batches([rows_of_day(seed) for seed in range(len(DAYS))]).combine_chunks()
    [batch] = table.to_batches()
    [dataset] = generate_statistics_in_memory(batch, tfdv.StatsOptions(schema=schema(), **OPTIONS)).datasets
    return {feature.path.step[0]: feature for feature in dataset.features}


def test_counts_bounds_and_frequent_values_are_those_of_tfdv(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert list(ours) == list(COLUMNS)
    for name, column in ours.items():
        other = theirs[name]
        kind = column.WhichOneof("stats")
        if name not in ("never", "unknown"):
            assert (column.type, kind) == (other.type, other.WhichOneof("stats")), name
        mine, its = getattr(column, kind), getattr(other, other.WhichOneof("stats"))
        assert mine.common_stats == its.common_stats, name
        if kind == "string_stats":
            assert mine == its, name
        elif name != "never":
            assert (mine.num_zeros, mine.min, mine.max) == (its.num_zeros, its.min, its.max), name
            assert [each.num_nan for each in mine.histograms] == [each.num_nan for each in its.histograms], name


def test_moments_are_those_of_tfdv(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    for name in ("number", "count", "odd"):
        mine, its = ours[name].num_stats, theirs[name].num_stats
        assert mine.mean == pytest.approx(its.mean, rel=1e-12, nan_ok=True), name
        assert mine.std_dev == pytest.approx(its.std_dev, rel=1e-12, nan_ok=True), name


def test_quantiles_have_the_ranks_that_they_stand_for(ours: dict[str, Any]) -> None:
    from tensorflow_metadata.proto.v0 import statistics_pb2

    table = pa.Table.from_batches([rows_of_day(seed) for seed in range(len(DAYS))])
    for name in ("number", "count"):
        values = np.sort(np.array([value for [value] in table.column(name).drop_null().to_pylist()]))
        for histogram in ours[name].num_stats.histograms:
            assert sum(bucket.sample_count for bucket in histogram.buckets) == pytest.approx(len(values)), name
            if histogram.type != statistics_pb2.Histogram.QUANTILES:
                continue
            cumulative = np.cumsum([bucket.sample_count for bucket in histogram.buckets])
            ranks = np.searchsorted(values, [bucket.high_value for bucket in histogram.buckets], side="right")
            # A frequent value is the bound of several buckets: the last of them has its rank.
            last = {bucket.high_value: number for number, bucket in enumerate(histogram.buckets)}.values()
            assert np.abs(cumulative - ranks)[list(last)].max() <= OPTIONS["epsilon"] * len(values), name


def test_days_that_are_known_are_not_read_again_and_give_the_same_bytes(
    days: list[Any], ours: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    from sangam.components.examples.day_results import result_file
    from sangam.components.steps.statistics_gen import executor

    read: list[str] = []
    original = executor.large_batches
    monkeypatch.setattr(executor, "large_batches", lambda files: (read.extend(files), original(files))[1])
    assert bytes_of(statistics_of(tmp_path / "again", days)) == bytes_of(ours)
    assert read == []
    # A day of other files, in a folder of its own, is computed alone.
    changed = write_day(tmp_path / "changed", DAYS[1], rows_of_day(9))
    moved = statistics_of(tmp_path / "moved", [days[1], days[2], changed])
    assert set(read) == set(changed.files)
    for day in days:
        for file in Path(day.folder).glob("statistics-*"):
            file.unlink()
    shutil.rmtree(tmp_path / "moved")
    assert bytes_of(statistics_of(tmp_path / "moved", [days[1], days[2], changed])) == bytes_of(moved)
    assert result_file(days[0].folder, "statistics", "a") != result_file(days[0].folder, "statistics", "b")
