"""The gate on the input: distances against NumPy, and a run that stops or warns."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tensorflow_data_validation as tfdv
from scipy.spatial.distance import jensenshannon
from tensorflow_data_validation.statistics import stats_impl
from tfx.types import standard_artifacts

from sangam.components.drift.comparison import MOST_ROWS, Comparison
from sangam.components.drift.reference import reference_of
from sangam.components.steps.example_validator.anomalies import DataAnomalies
from sangam.components.steps.example_validator.drift import STATISTICS, Distance, distances
from sangam.components.steps.example_validator.executor import Executor
from sangam.components.steps.schema_gen.schema import schema_text, tfmd_schema
from sangam.schemas.contracts.export import ServedColumn
from sangam.schemas.derived.rank_inputs import MISSING
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.drift import Drift, DriftBounds
from tests.errors import mentions, tells

pytestmark = pytest.mark.slow

INPUTS = Inputs.model_validate_json(
    json.dumps(
        {
            "features": {
                "tab": {"kind": "id", "type": "string", "table": "tabs", "column": "tab_name"},
                "post": {"kind": "id", "type": "int", "table": "posts"},
                "age": {"kind": "numeric", "normalize": "zscore", "missing": 0},
                "followers": {"kind": "numeric", "normalize": "zscore"},
                "hour": {"kind": "numeric", "normalize": "zscore", "type": "int"},
            },
            "tasks": {"like": {"kind": "binary"}},
        }
    )
)
EVERY = {"l_infinity": 0.05, "jensen_shannon": 0.02, "missing_share": 0.1}

Columns = dict[str, list[Any]]


def _columns(seed: int, num_rows: int, *, shift: float = 0.0, missing: float = 0.1) -> Columns:
    random = np.random.default_rng(seed)
    shares = [0.5 - shift / 5, 0.3, 0.2 + shift / 5]
    ages = random.normal(shift, 1, num_rows)
    return {
        "tab_name": [[("home", "search", "profile")[n]] for n in random.choice(3, num_rows, p=shares)],
        "post": [[int(n) % 50_000] for n in random.zipf(1.3, num_rows)],
        "age": [None if random.random() < missing else [float(age)] for age in ages],
        "followers": [[float(np.exp(n))] for n in random.normal(8 + 3 * shift, 3, num_rows)],
        "hour": [[int(n)] for n in random.integers(0, 24, num_rows)],
        "like": [[int(n)] for n in random.integers(0, 2, num_rows)],
    }


def _statistics(columns: Columns) -> Any:
    types = {"tab_name": pa.large_binary(), "post": pa.int64(), "hour": pa.int64(), "like": pa.int64()}
    arrays = [pa.array(values, pa.large_list(types.get(name, pa.float32()))) for name, values in columns.items()]
    options = tfdv.StatsOptions(schema=tfmd_schema(INPUTS), **STATISTICS)
    return stats_impl.generate_statistics_in_memory(pa.RecordBatch.from_arrays(arrays, list(columns)), options)


TRAIN, SAME, OTHER = _columns(1, 20_000), _columns(2, 4_000), _columns(3, 4_000, shift=0.5, missing=0.4)


@pytest.fixture(scope="module")
def statistics() -> dict[str, Any]:
    return {name: _statistics(columns) for name, columns in (("train", TRAIN), ("same", SAME), ("other", OTHER))}


def _found(statistics: dict[str, Any], side: str, drift: dict[str, Any]) -> dict[tuple[str, str], Distance]:
    declared = Drift.model_validate_json(json.dumps({"action": "warn", **drift}))
    measured = distances(INPUTS, declared, train=statistics["train"], evaluation=statistics[side])
    return {(distance.feature, distance.measure): distance for distance in measured}


def _values(columns: Columns, name: str) -> np.ndarray:
    return np.array([values[0] for values in columns[name] if values])


def _largest_difference(name: str, other: Columns) -> float:
    sides = [np.unique(_values(columns, name), return_counts=True) for columns in (TRAIN, other)]
    before, now = ({v: n / counts.sum() for v, n in zip(values, counts, strict=True)} for values, counts in sides)
    return max(abs(before.get(value, 0) - now.get(value, 0)) for value in {**before, **now})


@pytest.mark.parametrize(("feature", "column"), [("tab", "tab_name"), ("post", "post")])
def test_l_infinity_is_the_largest_difference_of_shares(statistics: dict[str, Any], feature: str, column: str) -> None:
    for side, columns in (("same", SAME), ("other", OTHER)):
        distance = _found(statistics, side, {"every": EVERY})[feature, "l_infinity"]
        assert distance.value == pytest.approx(_largest_difference(column, columns), abs=1e-9)


@pytest.mark.parametrize("feature", ["age", "followers", "hour"])
def test_divergence_is_that_of_bins_with_equal_shares_of_the_training_values(
    statistics: dict[str, Any], feature: str
) -> None:
    for side, columns in (("same", SAME), ("other", OTHER)):
        train, now = _values(TRAIN, feature), _values(columns, feature)
        cuts = np.unique(np.quantile(train, np.linspace(0, 1, 21)[1:-1]))
        p, q = (np.bincount(np.searchsorted(cuts, values), minlength=len(cuts) + 1) for values in (train, now))
        expected = jensenshannon(p, q, base=2) ** 2
        distance = _found(statistics, side, {"every": EVERY})[feature, "jensen_shannon"]
        assert distance.value == pytest.approx(expected, abs=0.006), side


def test_a_feature_of_equal_distribution_is_within_and_a_shifted_one_is_not(statistics: dict[str, Any]) -> None:
    same, other = (_found(statistics, side, {"every": EVERY}) for side in ("same", "other"))
    assert [key for key, distance in same.items() if not distance.is_within] == []
    assert {key for key, distance in other.items() if not distance.is_within} == {
        ("tab", "l_infinity"),
        ("age", "jensen_shannon"),
        ("followers", "jensen_shannon"),
        ("age", "missing_share"),
    }
    assert other["age", "missing_share"].value == pytest.approx(0.3, abs=0.02)
    text = other["tab", "l_infinity"].reason
    assert text.startswith("tab: l_infinity 0.0") or text.startswith("tab: l_infinity 0.1")
    assert mentions(text, "bound 0.05 ('")


@pytest.mark.parametrize("side", ["same", "other"])
def test_a_server_that_is_asked_the_rows_of_the_split_tells_the_same_distances(
    statistics: dict[str, Any], side: str
) -> None:
    drift = Drift.model_validate_json(json.dumps({"action": "warn", "every": EVERY}))
    reference = reference_of(INPUTS, drift, statistics["train"], {})
    kinds: dict[str, Any] = {
        name: (reference.columns[name].type, MISSING[reference.columns[name].type]) for name in reference.columns
    }
    columns = {name: ServedColumn(type=kind, is_list=False, input=name) for name, (kind, _) in kinds.items()}
    rows = SAME if side == "same" else OTHER
    arrays = {
        name: np.array(
            [missing if not row else row[0].encode() if kind == "string" else row[0] for row in rows[name]],
            object if kind == "string" else np.float32 if kind == "float" else np.int64,
        )
        for name, (kind, missing) in kinds.items()
    }
    comparison = Comparison(1, columns, reference)
    counts = [
        comparison.counts({name: array[start : start + MOST_ROWS] for name, array in arrays.items()}, MOST_ROWS, {})
        for start in range(0, 4_000 - MOST_ROWS + 1, MOST_ROWS)
    ]
    live = comparison.drift(np.sum(counts, axis=0))
    assert live.rows == 3_968  # 32 rows are left over.
    gate = _found(statistics, side, {"every": EVERY})
    assert len(gate) == 10
    for (feature, measure), distance in gate.items():
        of_column = live.columns["tab_name" if feature == "tab" else feature]
        assert of_column.distances[measure] == pytest.approx(distance.value, abs=0.005), (feature, measure)
        assert of_column.bounds[measure] == distance.bound
        assert (measure in of_column.over) == (not distance.is_within), (feature, measure)


def test_a_feature_s_own_bounds_stand_in_for_those_of_every_feature(statistics: dict[str, Any]) -> None:
    found = _found(statistics, "other", {"every": EVERY, "features": {"age": {"missing_share": 0.5}}})
    assert found["age", "missing_share"].is_within
    assert ("age", "jensen_shannon") not in found


def test_a_side_without_values_is_said_and_not_judged() -> None:
    none = _statistics(_columns(1, 50, missing=1.0))
    drift = Drift.model_validate_json(json.dumps({"action": "stop", "features": {"age": {"jensen_shannon": 0.1}}}))
    (distance,) = distances(INPUTS, drift, train=_statistics(SAME), evaluation=none)
    assert distance.value is None
    assert tells(distance.reason, "age", "jensen_shannon ... no value")


def test_a_feature_of_two_columns_is_as_far_as_the_further_and_times_only_go_missing(
    statistics: dict[str, Any],
) -> None:
    declared = Inputs.model_validate(
        {
            "features": {
                "pair": {"kind": "cross", "columns": {"post": "int", "tab_name": "string"}, "table": "t"},
                "weekday": {"kind": "time", "column": "hour", "part": "weekday"},
                "vector": {"kind": "vector", "column": "age", "dim": 1, "missing": 0},
            },
            "tasks": {"like": {"kind": "binary"}},
        }
    )
    drift = Drift(action="warn", every=DriftBounds(**EVERY))
    found = {
        (each.feature, each.measure): each
        for each in distances(declared, drift, train=statistics["train"], evaluation=statistics["other"])
    }
    assert set(found) == {
        ("pair", "l_infinity"),
        ("pair", "missing_share"),
        ("weekday", "missing_share"),
        ("vector", "jensen_shannon"),
        ("vector", "missing_share"),
    }
    assert found["pair", "l_infinity"].value == pytest.approx(_largest_difference("tab_name", OTHER), abs=1e-9)
    assert mentions(found["pair", "l_infinity"].reason, "bound 0.05 ... 'tab_name' ('")
    assert not found["vector", "jensen_shannon"].is_within


def _validate(folder: Path, statistics: dict[str, Any], side: str, drift: dict[str, Any]) -> Any:
    """Runs the real executor; returns the artifact of anomalies."""
    given, schema, anomalies = (
        standard_artifacts.ExampleStatistics(),
        standard_artifacts.Schema(),
        standard_artifacts.ExampleAnomalies(),
    )
    for artifact, name in ((given, "statistics"), (schema, "schema"), (anomalies, "anomalies")):
        artifact.uri = str(folder / name)
        Path(artifact.uri).mkdir(parents=True)
    given.split_names = json.dumps(["train", "eval"])
    for split, of in (("train", "train"), ("eval", side)):
        path = Path(given.uri) / f"Split-{split}"
        path.mkdir()
        (path / "FeatureStats.pb").write_bytes(statistics[of].SerializeToString())
    (Path(schema.uri) / "schema.pbtxt").write_text(schema_text(INPUTS))
    Executor().Do(
        {"statistics": [given], "schema": [schema]},
        {"anomalies": [anomalies]},
        {"inputs": INPUTS.model_dump_json(), "drift": json.dumps(drift) if drift else "", "code": "c"},
    )
    return anomalies


def test_drift_stops_the_run_naming_every_feature_out_of_bounds(tmp_path: Path, statistics: dict[str, Any]) -> None:
    with pytest.raises(DataAnomalies) as caught:
        _validate(tmp_path, statistics, "other", {"action": "stop", "every": EVERY})
    lines = str(caught.value).splitlines()
    assert [line.split()[1] for line in lines] == ["tab:", "age:", "age:", "followers:"]
    assert all("bound" in line for line in lines)


def test_drift_that_warns_becomes_a_note_and_the_distances_are_kept(tmp_path: Path, statistics: dict[str, Any]) -> None:
    anomalies = _validate(tmp_path, statistics, "other", {"action": "warn", "every": EVERY})
    assert anomalies.get_string_custom_property("note").count("drift: ") == 4
    written = json.loads((Path(anomalies.uri) / "drift.json").read_text())
    assert len(written) == 2 + 3 + 5


@pytest.mark.parametrize("label", [0, 1])
def test_labels_of_one_class_are_told_for_each_split(tmp_path: Path, statistics: dict[str, Any], label: int) -> None:
    alike = statistics | {"alike": _statistics({**SAME, "like": [[label]] * len(SAME["like"])})}
    anomalies = _validate(tmp_path, {**alike, "train": alike["alike"]}, "alike", {})
    train, evaluation = anomalies.get_string_custom_property("note").splitlines()
    assert tells(train, "labels: like", f"4,000 labels are {label} ... 'train'")
    assert tells(evaluation, "labels: like", f"4,000 labels are {label} ... 'eval' ... auc")


def test_without_drift_or_without_a_declaration_nothing_is_said(tmp_path: Path, statistics: dict[str, Any]) -> None:
    within = _validate(tmp_path / "a", statistics, "same", {"action": "stop", "every": EVERY})
    assert not within.has_custom_property("note")
    undeclared = _validate(tmp_path / "b", statistics, "other", {})
    assert not (Path(undeclared.uri) / "drift.json").exists()
