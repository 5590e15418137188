"""Statistics and analysis of the specs' own data: exact counts, moments as of TFDV and NumPy, ranks to the error."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sangam.components.arrow_files import read_arrow
from sangam.schemas.loading import load_spec
from sangam.schemas.spec import Inputs, Spec
from sangam.schemas.spec.data import EVAL, TRAIN
from sangam.schemas.spec.drift import Drift
from sangam.schemas.spec.encodings import StandardEncoding
from sangam.schemas.spec.feature_bases import NumberFeature
from tests.beam_args import BEAM_ARGS
from tests.paths import SHARED_DATA, SPECS

pytestmark = [pytest.mark.slow, pytest.mark.real_data, pytest.mark.long]

OPTIONS = {"num_quantiles_histogram_buckets": 100, "epsilon": 0.0025}
RANKED, TOP = 1000, 20
DRIFT = {"action": "warn", "every": {"l_infinity": 0.1, "jensen_shannon": 0.1, "missing_share": 0.05}}


@dataclass(frozen=True)
class Real:
    """A spec's examples, and the statistics of each split by column.

    Attributes:
        spec: the spec.
        schema: of the examples.
        days: of each split.
        tables: all rows of each split.
        ours: statistics put together from days.
        theirs: TFDV's, of all rows at once.
    """

    spec: Spec
    schema: Any
    days: dict[str, Sequence[Any]]
    tables: dict[str, pa.Table]
    ours: dict[str, Any]
    theirs: dict[str, Any]

    def values(self, split: str, column: str) -> pa.Array:
        """Returns all values of a column."""
        return self.tables[split].column(column).combine_chunks().flatten()


def logs_of(name: str, folder: Path) -> tuple[dict[str, Any], str, Path]:
    """Returns what is changed in the spec's section `data` for fewer rows, the date, and the logs."""
    if name == "short_video":
        from sangam.pipelines.synthetic.generate import generate

        sizes = {"num_days": 4, "rows_per_day": 5000, "num_users": 2000, "num_posts": 5000}
        generate(folder, first_day=datetime.date(2024, 3, 1), seed=1, **sizes)
        return {"train_days": 3}, "2024-03-04", folder
    if not SHARED_DATA.exists():
        pytest.skip(f"needs the real data beside the checkout, in {SHARED_DATA}")
    if name == "online_retail":
        return {"train_days": 8}, "2011-11-30", SHARED_DATA / name / "lines"
    halves = {TRAIN: "validation/*.parquet", EVAL: "test/*.parquet"}
    return {"splits": halves}, "", SHARED_DATA / name / "nominal"


@pytest.fixture(scope="module", params=["short_video", "online_retail", "census_income"])
def real(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Real:
    import tensorflow_data_validation as tfdv
    from google.protobuf import text_format
    from tensorflow_data_validation.statistics.stats_impl import generate_statistics_in_memory
    from tfx.types import standard_artifacts

    from sangam.components.examples.listing import read_listing
    from sangam.components.examples.reading import large_batches
    from sangam.components.steps.example_gen.executor import Executor
    from sangam.components.steps.schema_gen.schema import tfmd_schema
    from sangam.components.steps.statistics_gen.executor import Collect, merged
    from sangam.components.steps.statistics_gen.proto import to_proto

    folder = tmp_path_factory.mktemp(request.param)
    spec = load_spec(SPECS / f"{request.param}.yaml")
    changes, date, logs = logs_of(request.param, folder / "logs")
    examples = standard_artifacts.Examples()
    examples.uri = str(folder / "examples")
    properties = {
        "logs": type(spec.data).model_validate({**spec.data.model_dump(), **changes}).model_dump_json(),
        "inputs": spec.inputs().model_dump_json(),
        "date": date,
        "data_root": str(logs),
        "name": spec.name,
        "mode": "full",
        "pipeline_root": str(folder / "root"),
        "code": "",
    }
    Executor(Executor.Context(beam_pipeline_args=list(BEAM_ARGS))).Do({}, {"examples": [examples]}, properties)
    days: dict[str, Sequence[Any]] = dict(read_listing(examples.uri).splits)
    schema = tfmd_schema(spec)
    collect = Collect(text_format.MessageToString(schema), OPTIONS["epsilon"])
    ours, theirs, tables = {}, {}, {}
    for split, of_split in days.items():
        files = [file for day in of_split for file in day.files]
        rows = sum(day.rows for day in of_split)
        columns = merged([read_arrow(collect(day.files), "") for day in of_split], collect)
        ours[split] = to_proto(columns, rows, int(OPTIONS["num_quantiles_histogram_buckets"]))
        tables[split] = pa.Table.from_batches(list(large_batches(files))).combine_chunks()
        assert tables[split].num_rows == rows > 2000
        [batch] = tables[split].to_batches()
        theirs[split] = generate_statistics_in_memory(batch, tfdv.StatsOptions(schema=schema, **OPTIONS))
    return Real(spec, schema, days, tables, ours, theirs)


def by_column(statistics: Any) -> dict[str, Any]:
    [dataset] = statistics.datasets
    return {feature.path.step[0]: feature for feature in dataset.features}


def test_counts_of_values_are_exact(real: Real) -> None:
    """TFDV's own are of a sketch with fewer places: off by up to 0.07 % of all values."""
    for split, statistics in real.ours.items():
        for name, column in by_column(statistics).items():
            if column.WhichOneof("stats") != "string_stats":
                continue
            values, found = real.values(split, name), column.string_stats
            texts = values.cast(pa.string()) if pa.types.is_integer(values.type) else values.cast(pa.large_string())
            exact = {each["values"]: each["counts"] for each in texts.value_counts().to_pylist()}
            counts = sorted(exact.values(), reverse=True)
            ranked = [(bucket.label, bucket.sample_count) for bucket in found.rank_histogram.buckets]
            assert found.unique == len(exact) < 4096, name
            assert [count for _, count in ranked] == counts[:RANKED], name
            assert all(exact[label] == count for label, count in ranked), name
            assert [(top.value, top.frequency) for top in found.top_values] == ranked[:TOP], name


def test_the_other_numbers_are_those_of_tfdv(real: Real) -> None:
    for split, statistics in real.ours.items():
        others = by_column(real.theirs[split])
        for name, column in by_column(statistics).items():
            other, kind = others[name], column.WhichOneof("stats")
            assert (column.type, kind) == (other.type, other.WhichOneof("stats")), name
            mine, its = getattr(column, kind), getattr(other, kind)
            assert mine.common_stats == its.common_stats, name
            if kind == "string_stats":
                assert mine.avg_length == its.avg_length, name
                continue
            assert (mine.num_zeros, mine.min, mine.max) == (its.num_zeros, its.min, its.max), name
            assert (mine.mean, mine.std_dev) == pytest.approx((its.mean, its.std_dev), rel=1e-12), name


def test_quantiles_keep_the_stated_error_of_a_rank(real: Real) -> None:
    from tensorflow_metadata.proto.v0 import statistics_pb2

    for split, statistics in real.ours.items():
        for name, column in by_column(statistics).items():
            if column.WhichOneof("stats") != "num_stats":
                continue
            values = np.sort(real.values(split, name).to_numpy())
            below, at_most = (np.searchsorted(values, column.num_stats.median, side) for side in ("left", "right"))
            allowed = OPTIONS["epsilon"] * len(values)
            assert below - allowed <= len(values) / 2 <= at_most + allowed, name
            [fine] = [h for h in column.num_stats.histograms if h.type == statistics_pb2.Histogram.QUANTILES]
            cumulative = np.cumsum([bucket.sample_count for bucket in fine.buckets])
            last = {bucket.high_value: number for number, bucket in enumerate(fine.buckets)}
            ranks = np.searchsorted(values, list(last), side="right")
            assert np.abs(cumulative[list(last.values())] - ranks).max() <= allowed, name


def reasons(anomalies: Any) -> dict[str, Any]:
    """Returns what is wrong with each column; its sentence names values by their shares, which TFDV only estimates."""
    return {
        name: (info.severity, [reason.type for reason in info.reason]) for name, info in anomalies.anomaly_info.items()
    }


def test_validation_finds_what_it_finds_in_statistics_of_tfdv(real: Real) -> None:
    import tensorflow_data_validation as tfdv

    from sangam.components.steps.example_validator.drift import distances

    # Half of each column's values are outside: a schema that all rows satisfy shows nothing.
    wrong = type(real.schema)()
    wrong.CopyFrom(real.schema)
    columns = by_column(real.theirs[TRAIN])
    for feature in wrong.feature:
        column = columns[feature.name]
        if column.WhichOneof("stats") == "num_stats":
            domain = feature.int_domain if column.type == column.INT else feature.float_domain
            domain.max = type(domain.max)(column.num_stats.mean)
        elif column.type == column.STRING:
            feature.string_domain.value.append(column.string_stats.top_values[0].value)
    for split in real.ours:
        for schema in (real.schema, wrong):
            mine, its = (reasons(tfdv.validate_statistics(side[split], schema)) for side in (real.ours, real.theirs))
            assert mine == its, split
            assert len(mine) > len(columns) / 2 if schema is wrong else not mine, split
    drift = Drift.model_validate(DRIFT)
    mine, its = (
        {(each.feature, each.measure): each.value for each in distances(real.spec, drift, train=t, evaluation=e)}
        for t, e in ((side[TRAIN], side[EVAL]) for side in (real.ours, real.theirs))
    )
    assert mine == pytest.approx(its, abs=0.002, rel=0.0)


def _scaled(inputs: Inputs) -> Inputs:
    """Returns inputs with all numbers scaled, none in bins."""
    features = {
        name: feature.model_copy(update={"encoding": StandardEncoding(kind="standard")})
        if isinstance(feature, NumberFeature)
        else feature
        for name, feature in inputs.features.items()
    }
    return inputs.model_copy(update={"features": features})


def test_transform_scales_by_the_moments_of_the_training_rows(real: Real) -> None:
    from sangam.components.steps.transform.analysis import Analyze
    from sangam.components.steps.transform.tensors import tensors_of
    from sangam.schemas.contracts.statistics import Scale, to_analyze
    from sangam.schemas.derived.columns import feature_columns
    from sangam.trainer_module.transforms.preprocessing import numbers_fn

    inputs = _scaled(real.spec.inputs())
    names = tuple(to_analyze(inputs, {}))
    assert bool(names) == (real.spec.name != "census_income")
    analyze = Analyze(numbers_fn, inputs, names)
    found = analyze.found(analyze.merged([read_arrow(analyze(day.files), "") for day in real.days[TRAIN]]))
    columns = sorted({column.name for name in names for column in feature_columns(inputs, name)})
    config = {"inputs": inputs.model_dump_json(), "features": list(names)}
    [batch] = real.tables[TRAIN].to_batches()
    numbers = numbers_fn(tensors_of(batch, columns), config) if names else {}
    for name, scale in found.items():
        assert isinstance(scale, Scale)
        of_feature = numbers[name].numpy().astype(np.float64)
        finite = of_feature[np.isfinite(of_feature)]
        is_zscore = inputs.features[name].normalize == "zscore"
        expected = (finite.mean(), finite.std()) if is_zscore else (finite.min(), np.ptp(finite))
        assert (scale.offset, scale.width) == pytest.approx(expected, rel=2e-7), name
