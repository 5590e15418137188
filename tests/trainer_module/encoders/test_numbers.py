"""Numbers from raw columns to vectors, against the paper's formulas in NumPy."""

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from sangam.schemas.contracts.statistics import Bins, Scale, Statistics
from sangam.schemas.derived.encodings import encoded_together, float_inputs
from sangam.schemas.derived.weights import dense_weights
from sangam.schemas.spec import RankerSpec

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")

BINS = 6
NONE = math.nan
RANDOM = np.random.default_rng(0)
SKEWED = RANDOM.lognormal(1.0, 1.5, size=400).astype(np.float32)
COLUMNS: dict[str, Any] = {
    "skewed": SKEWED,
    "zeros": np.where(RANDOM.random(400) < 0.9, 0, RANDOM.integers(1, 50, 400)),
    "same": np.full(400, 2.5),
    "two": np.arange(400) % 2,
    "gaps": np.where(RANDOM.random(400) < 0.3, NONE, SKEWED),
    "none": np.full(400, NONE),
    "huge": np.resize([-3.4e38, 3.4e38, 0, 1], 400),
    "tiny": np.resize([1e-45, 1e-40, 2e-40], 400),
}
NUMBER = {"kind": "numeric", "encoding": {"kind": "piecewise_linear", "bins": BINS, "dim": 2}}
LINEAR = {"kind": "numeric", "encoding": {"kind": "piecewise_linear", "bins": BINS, "dim": 2, "tail": "linear"}}
WAVES = {"kind": "numeric", "encoding": {"kind": "periodic", "frequencies": 3, "sigma": 0.5, "dim": 2}}
FEATURES: dict[str, dict[str, Any]] = {
    "waves": WAVES | {"column": "skewed", "normalize": "minmax"},
    "plain": {"kind": "numeric", "normalize": "zscore", "column": "skewed"},
    "skewed": NUMBER,
    "logged": NUMBER | {"column": "skewed", "clip": [0.5, 20], "log": True},
    "zeros": NUMBER,
    "same": NUMBER,
    "huge": NUMBER,
    "tiny": NUMBER,
    "tailed": LINEAR | {"column": "skewed"},
    "same_tailed": LINEAR | {"column": "same"},
    "two": LINEAR,
    "gaps": NUMBER | {"missing": "learned"},
    "none": NUMBER | {"missing": "learned"},
    "gaps_in_waves": WAVES | {"column": "gaps", "missing": "learned"},
}
RANKER = RankerSpec.model_validate_json(
    json.dumps(
        {
            "name": "numbers",
            "features": FEATURES,
            "tasks": {"like": {"kind": "binary"}},
            "model": {"kind": "single_task"},
            "training": {
                "batch_size_per_rank": 8,
                "dense_optimizer": {"kind": "adam", "learning_rate": 0.01},
                "embedding_optimizer": {"kind": "adagrad", "learning_rate": 0.05},
            },
        }
    )
)


def _raw(values: Sequence[float]) -> Any:
    """Returns one number a row, and none for NaN."""
    return tf.cast(tf.ragged.constant([[] if np.isnan(value) else [value] for value in values], tf.float32), tf.float32)


@pytest.fixture(scope="module")
def statistics() -> Statistics:
    from tests.trainer_module.transforms.analysis import statistics_of

    rows = [
        {name: [] if np.isnan(values[row]) else [float(np.float32(values[row]))] for name, values in COLUMNS.items()}
        for row in range(400)
    ]
    return statistics_of(RANKER.inputs(), rows)


def _floats(statistics: Statistics, columns: dict[str, Any]) -> dict[str, np.ndarray]:
    """Returns what Transform makes of the columns: {feature: [rows] or [rows, 2]}."""
    from sangam.trainer_module.transforms.preprocessing import preprocessing_fn
    from tests.trainer_module.transforms.analysis import config_of

    inputs = {name: _raw(values).to_sparse() for name, values in columns.items()}
    inputs["like"] = tf.cast(_raw(np.ones(len(columns["same"]))).to_sparse(), tf.int64)
    made = preprocessing_fn(inputs, config_of(RANKER.inputs(), statistics))
    return {name: made[name].numpy() for name in FEATURES}


def _vectors(floats: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Returns the weights by name, and the vector of each feature: {feature: [rows, floats]}."""
    from sangam.trainer_module.encoders.numbers import EncodedNumbers

    widths = tuple((name, values.ndim) for name, values in floats.items())
    layer = EncodedNumbers(RANKER, widths)
    random = np.random.default_rng(1)
    declared = [weight for weight in dense_weights(RANKER) if weight.name.startswith("numbers/")]
    weights = {weight.name: random.normal(size=weight.shape).astype(np.float32) for weight in declared}
    side_by_side = np.concatenate([values.reshape(len(values), -1) for values in floats.values()], 1)
    made = layer({name: tf.constant(weight) for name, weight in weights.items()}, tf.constant(side_by_side)).numpy()
    ends = np.cumsum([width for _, width in float_inputs(RANKER)])
    parts = np.split(made, ends[:-1], axis=1)
    return weights, dict(zip([name for name, _ in float_inputs(RANKER)], parts, strict=True))


def _shares(x: np.ndarray, ends: Sequence[float], *, is_open: bool) -> np.ndarray:
    """Section 3.2 of the paper; clipped below the first and above the last bin where these are not open."""
    shares = np.zeros((len(x), BINS))
    bins = len(ends) - 1
    for t in range(1, bins + 1):
        low, high = ends[t - 1], ends[t]
        for row, number in enumerate(x.astype(np.float64)):
            if number < low and (t > 1 or not is_open):
                shares[row, t - 1] = 0
            elif number >= high and (t < bins or not is_open):
                shares[row, t - 1] = 1
            else:
                shares[row, t - 1] = (number - low) / (high - low)
    return shares


def _weights_of(weights: dict[str, np.ndarray], feature: str) -> dict[str, np.ndarray]:
    [together] = [each for each in encoded_together(RANKER) if feature in each.features]
    number = together.features.index(feature)
    prefix = f"{together.name}/"
    return {name.removeprefix(prefix): w[number] for name, w in weights.items() if name.startswith(prefix)}


@pytest.fixture(scope="module")
def request_columns() -> dict[str, np.ndarray]:
    """Numbers of the training split, of between and beyond them, and a missing one."""
    found = {}
    for name, values in COLUMNS.items():
        given = values[np.isfinite(values)].astype(np.float32)
        low, high = (given.min(), given.max()) if len(given) else (0.0, 1.0)
        beyond = [low, high, low / 2 + high / 2]
        beyond += [low - (high - low) / 4, high + 3 * (high - low)] if high < 1e38 else [low, high]
        found[name] = np.array([*beyond, *np.resize(given, 40), NONE], np.float32)
    return {name: np.resize(values, 46) for name, values in found.items()}


@pytest.mark.parametrize("name", ["skewed", "logged", "zeros", "tailed", "two", "huge", "gaps"])
def test_a_number_becomes_the_papers_shares_of_bins(
    name: str, statistics: Statistics, request_columns: dict[str, np.ndarray]
) -> None:
    bins = statistics.features[name].analyzed
    assert isinstance(bins, Bins)
    x = request_columns[FEATURES[name].get("column", name)]
    weights, vectors = _vectors(_floats(statistics, request_columns))
    own, is_given = _weights_of(weights, name), np.isfinite(x)
    numbers = np.log1p(np.clip(x, 0.5, 20)) if name == "logged" else x
    is_open = FEATURES[name]["encoding"].get("tail") == "linear"
    shares = _shares(numbers[is_given], bins.ends, is_open=is_open)
    assert np.isfinite(shares).all()
    # The last input of a layer that learns of missing numbers is 0 where there is one.
    expected = np.maximum(shares @ own["w"][:BINS] + own["b"], 0)
    np.testing.assert_allclose(vectors[name][is_given], expected, rtol=2e-4, atol=2e-4)
    without = own["w"][-1] if name == "gaps" else _halfway(len(bins.ends) - 1) @ own["w"]
    np.testing.assert_allclose(vectors[name][~is_given], [np.maximum(without + own["b"], 0)], rtol=1e-5)


def _halfway(bins: int) -> np.ndarray:
    """Returns the shares of the middle of all bins."""
    return np.clip(bins / 2 - np.arange(BINS), 0, 1)


def test_a_number_becomes_sines_and_cosines_of_trained_frequencies(
    statistics: Statistics, request_columns: dict[str, np.ndarray]
) -> None:
    weights, vectors = _vectors(_floats(statistics, request_columns))
    scale, of_gaps = statistics.features["waves"].analyzed, statistics.features["gaps_in_waves"].analyzed
    assert isinstance(scale, Scale)
    assert isinstance(of_gaps, Scale)
    for name, x, found in (
        ("waves", request_columns["skewed"], scale),
        ("gaps_in_waves", request_columns["gaps"], of_gaps),
    ):
        own, is_missing = _weights_of(weights, name), np.isnan(x)
        normalized = np.where(is_missing, 0, (x.astype(np.float64) - found.offset) / found.width)
        angles = 2 * np.pi * normalized[:, None] * own["frequencies"]
        encoded = np.concatenate([np.sin(angles), np.cos(angles)], 1)
        if name == "gaps_in_waves":
            encoded = np.concatenate([encoded, is_missing[:, None]], 1)
        np.testing.assert_allclose(vectors[name], np.maximum(encoded @ own["w"] + own["b"], 0), rtol=1e-3, atol=1e-3)


def test_columns_of_few_numbers_have_fewer_bins_and_no_vector_is_nan(
    statistics: Statistics, request_columns: dict[str, np.ndarray]
) -> None:
    ends = {name: each.analyzed.ends for name, each in statistics.features.items() if isinstance(each.analyzed, Bins)}
    assert (ends["same"], ends["same_tailed"], ends["none"]) == ((2.5,), (2.5,), ())
    assert ends["huge"] == tuple(map(float, np.float32([-3.4e38, 0, 1, 3.4e38])))
    # A line that goes on beyond the last bin must be that of the trainer's last bin.
    np.testing.assert_allclose(ends["two"], np.arange(BINS + 1) / BINS, rtol=1e-6)
    assert len(ends["zeros"]) == BINS + 1
    assert (ends["zeros"][0], ends["zeros"][1] > 0) == (0.0, True)
    _, vectors = _vectors(_floats(statistics, request_columns))
    assert {name: bool(np.isfinite(vector).all()) for name, vector in vectors.items()} == dict.fromkeys(vectors, True)
    for name in ("same", "same_tailed"):
        assert len(np.unique(vectors[name], axis=0)) == 1
    assert len(np.unique(vectors["none"], axis=0)) == 2  # A number, and none.


def test_numbers_alone_and_in_a_batch_are_placed_alike_to_the_last_bit(
    statistics: Statistics, request_columns: dict[str, np.ndarray]
) -> None:
    together = _floats(statistics, request_columns)
    for row in (0, 3, 45):
        alone = _floats(statistics, {name: values[row : row + 1] for name, values in request_columns.items()})
        for name in FEATURES:
            np.testing.assert_array_equal(alone[name][0], together[name][row], name)


def test_numbers_of_one_shape_are_encoded_by_one_product() -> None:
    from sangam.trainer_module.ranker import Ranker

    weights = {weight.name: weight for weight in Ranker(RANKER).weights.weights if weight.name.startswith("numbers/")}
    assert {name: weight.shape for name, weight in weights.items()} == {
        "numbers/periodic_3_0.5_2/frequencies": (1, 3),
        "numbers/periodic_3_0.5_2/w": (1, 6, 2),
        "numbers/periodic_3_0.5_2/b": (1, 2),
        "numbers/piecewise_linear_6_2/w": (9, 6, 2),
        "numbers/piecewise_linear_6_2/b": (9, 2),
        "numbers/piecewise_linear_6_2_missing/w": (2, 7, 2),
        "numbers/piecewise_linear_6_2_missing/b": (2, 2),
        "numbers/periodic_3_0.5_2_missing/frequencies": (1, 3),
        "numbers/periodic_3_0.5_2_missing/w": (1, 7, 2),
        "numbers/periodic_3_0.5_2_missing/b": (1, 2),
    }
    blocks = weights["numbers/piecewise_linear_6_2_missing/w"].blocks
    assert blocks == ((("gaps", 1), ("none", 1)), None, None)
