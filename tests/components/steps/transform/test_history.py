"""Rates and counts as of each day: against brute force, against a planted leak, against Online Retail's own columns."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sangam.schemas.contracts.statistics import Bins, Scale, Statistics
from sangam.schemas.spec.data import DayLogs
from tests.components.logs.sample_logs import Row, day_logs, write_days
from tests.components.steps.transform import sample_history as sample
from tests.components.steps.transform.sample_run import transformed
from tests.errors import mentions
from tests.paths import SHARED_DATA

pytestmark = pytest.mark.slow

DAYS = [f"2024-03-{day:02d}" for day in (1, 2, 4, 5, 7, 8, 9, 10)]
"""The third and the sixth have no logs."""
TRAIN, VALIDATION, EVAL = ["2024-03-05", "2024-03-07"], ["2024-03-08"], ["2024-03-09", "2024-03-10"]
LOGS = day_logs(train_days=4, validation_days=1, eval_days=2, missing_days="skip")
PLAIN = {"normalize": "none"}
USER, PAIR = {"user": "string"}, {"user": "string", "post": "int"}
FEATURES: dict[str, Any] = {
    "user": {"kind": "id", "type": "string", "table": "users", "missing_row": True},
    "like_rate": {"kind": "rate", "task": "like", "by": USER, "days": 3, "smoothing": 2, "prior": 0.25, **PLAIN},
    "rating_mean": {"kind": "rate", "task": "rating", "by": USER, "days": 3, "smoothing": 0.5, **PLAIN},
    "pair_rate": {"kind": "rate", "task": "like", "by": PAIR, **PLAIN},
    "pair_count": {"kind": "count", "by": PAIR, "days": 2, **PLAIN},
    "user_count": {"kind": "count", "by": USER, "days": 3, "normalize": "zscore"},
    "user_count_in_bins": {
        "kind": "count",
        "by": USER,
        "days": 3,
        "encoding": {"kind": "piecewise_linear", "bins": 4},
    },
}
NAMES = ["like_rate", "rating_mean", "pair_rate", "pair_count"]
TASKS: dict[str, Any] = {
    "like": {"kind": "binary", "missing_label": "mask", "only_where": "seen"},
    "rating": {"kind": "regression"},
}
INPUTS = sample.inputs_of(FEATURES, TASKS)


def expected(rows: dict[str, list[Row]], row: Row, as_of: str) -> list[float]:
    """Returns `NAMES` of a row by brute force."""
    user, pair = sample.has_same(row, "user"), sample.has_same(row, "user", "post")
    all_three = sample.before(rows, as_of, 3, "")
    all_of_run = sample.before(rows, as_of, None, TRAIN[0])

    def likes(among: list[Row], same: Any = lambda _: True) -> list[float]:
        return [each["like"] for each in among if same(each) and each["seen"] and each["like"] is not None]

    ratings = [each["rating"] for each in all_three]
    prior = sum(likes(all_of_run)) / len(likes(all_of_run)) if all_of_run else np.nan
    return [
        sample.rate(likes(all_three, user), 2, 0.25),
        sample.rate([each["rating"] for each in all_three if user(each)], 0.5, sum(ratings) / len(ratings)),
        # The first train day has nothing before it: no mean, so that the feature is 0 after normalizing.
        sample.rate(likes(all_of_run, pair), 20, prior) if all_of_run else 0.0,
        sum(map(pair, sample.before(rows, as_of, 2, ""))),
    ]


class World:
    """The steps over the days, and what they wrote."""

    def __init__(self, root: Path, rows: dict[str, list[Row]], base: Any = None):
        write_days(root / "logs", "parquet", rows)
        self.root, self.rows = root, rows
        self.examples = sample.ingested(root, LOGS, INPUTS, DAYS[-1], root / "logs", base)
        self.graph = transformed(root, self.examples, INPUTS)

    def values(self, split: str, names: list[str] = NAMES) -> dict[str, Any]:
        return sample.values_by_day(self.root, split, names)

    def statistics(self) -> Statistics:
        return Statistics.model_validate_json((self.root / "graph" / "statistics.json").read_bytes())


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("history"), sample.rows_of_days(DAYS, rows=40, seed=3))


@pytest.mark.parametrize(
    ("split", "days", "as_of"),
    [("train", TRAIN, None), ("validation", VALIDATION, None), ("eval", EVAL, EVAL[0])],
)
def test_a_row_reads_what_happened_before_its_day_and_an_evaluated_one_what_the_served_model_knows(
    world: World, split: str, days: list[str], as_of: str | None
) -> None:
    found = world.values(split)
    assert list(found) == days
    for day in days:
        wanted = [expected(world.rows, row, as_of or day) for row in world.rows[day]]
        np.testing.assert_allclose(found[day], wanted, rtol=1e-6, atol=1e-7, err_msg=day)
        assert np.ptp(found[day], axis=0)[[0, 1, 3]].min() > 0


def test_days_before_the_window_are_read_for_their_history_and_nothing_else(world: World) -> None:
    from sangam.components.examples.listing import read_listing
    from sangam.components.reports.artifact_files import read_ingestion

    listing, report = read_listing(world.examples.uri), read_ingestion(world.examples.uri)
    # Of the three days before the first train day one has no logs, which stops no run.
    assert report.history_days == [day.day for day in listing.history] == ["2024-03-02", "2024-03-04"]
    assert set(listing.splits) == set(report.splits) == {"train", "validation", "eval"}
    assert report.missing_days == ["2024-03-06"]
    [note] = report.notes
    assert mentions(note, "of the 3 days before 2024-03-05 ... 2 have logs")
    assert mentions(note, "as of 2024-03-09")


def test_statistics_are_those_of_the_train_rows_values(world: World) -> None:
    counts = [
        sum(map(sample.has_same(row, "user"), sample.before(world.rows, day, 3, "")))
        for day in TRAIN
        for row in world.rows[day]
    ]
    found = world.statistics().features
    scale = found["user_count"].analyzed
    assert isinstance(scale, Scale)
    assert scale.offset == pytest.approx(np.mean(counts))
    assert scale.width == pytest.approx(np.std(counts))
    assert found["like_rate"].analyzed is None
    bins = found["user_count_in_bins"].analyzed
    assert isinstance(bins, Bins)
    assert (bins.ends[0], bins.ends[-1]) == (min(counts), max(counts))
    binned = np.concatenate(list(world.values("train", ["user_count_in_bins"]).values()))[:, 0]
    placed = np.interp(counts, bins.ends, np.arange(len(bins.ends)))
    np.testing.assert_allclose(binned, placed, atol=1e-5)
    scaled = np.concatenate(list(world.values("train", ["user_count"]).values()))
    np.testing.assert_allclose(scaled[:, 0], (np.array(counts) - np.mean(counts)) / np.std(counts), atol=1e-5)


def test_the_loaded_graph_makes_of_a_request_what_transform_wrote_for_the_evaluated_rows(world: World) -> None:
    import tensorflow as tf

    from sangam.trainer_module.transforms.graph import TransformGraph

    graph = TransformGraph(str(world.root / "graph"))
    assert set(graph.columns) == {"user", "post", "like", "seen", "rating"}
    rows = [row for day in EVAL for row in world.rows[day]]

    def column(name: str, kind: tf.DType) -> tf.SparseTensor:
        ragged = tf.ragged.constant([[] if row[name] is None else [row[name]] for row in rows], kind)
        return ragged.to_sparse()

    given = {"user": column("user", tf.string), "post": column("post", tf.int64)}
    made = graph(given, len(rows))
    written = np.concatenate(list(world.values("eval", [*NAMES, "user_count"]).values()))
    np.testing.assert_array_equal(np.stack([made[name] for name in [*NAMES, "user_count"]], 1), written)
    # One user with many candidates: what is of the user alone has one row.
    user = tf.sparse.from_dense([["u1"]])
    one = graph({"user": user, "post": given["post"]}, 1)
    repeated = graph({"user": tf.sparse.from_dense([["u1"]] * len(rows)), "post": given["post"]}, len(rows))
    assert one["like_rate"].shape == [1]
    assert one["like_rate"][0] == repeated["like_rate"][7]
    np.testing.assert_array_equal(one["pair_rate"], repeated["pair_rate"])


def test_only_the_newest_tables_stay_beside_the_graph(world: World) -> None:
    from sangam.schemas.contracts.history import History

    folders = {path.name for path in (world.root / "graph").iterdir() if path.is_dir()}
    assert {name for name in folders if name.startswith("history")} == {"history"}
    found = History.model_validate_json((world.root / "graph" / "history" / "history.json").read_bytes())
    assert found.as_of == EVAL[0]
    assert [list(table.defaults) for table in found.tables] == [
        ["like_rate", "rating_mean", "user_count", "user_count_in_bins"],
        ["pair_rate"],
        ["pair_count"],
    ]


def test_small_days_mapped_together_are_what_each_is_alone(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sangam.components.steps.transform import mapping
    from sangam.components.steps.transform.history import run

    monkeypatch.setattr(mapping, "_ROWS_TOGETHER", 1)
    monkeypatch.setattr(run, "_MOST_HELD_BYTES", 0)
    transformed(tmp_path, world.examples, INPUTS)
    together = {path.name: path for path in (world.root / "transformed").rglob("*.blocks")}
    alone = {path.name: path for path in (tmp_path / "transformed").rglob("*.blocks")}
    assert sorted(alone) == sorted(together)
    assert len(alone) == len([*TRAIN, *VALIDATION, *EVAL])
    assert all(path.read_bytes() == together[name].read_bytes() for name, path in alone.items())
    assert (tmp_path / "graph" / "statistics.json").read_bytes() == (
        world.root / "graph" / "statistics.json"
    ).read_bytes()


def test_a_label_that_an_id_has_on_its_own_day_only_is_not_seen(tmp_path: Path) -> None:
    """Every user has one day on which all labels are 1, and never before: a leak would rank perfectly."""
    rows: dict[str, list[Row]] = {}
    for number, day in enumerate(DAYS):
        of_day = [
            {"user": f"u{user}", "post": 0, "like": int(user == number), "seen": 1, "rating": 0.0}
            for user, _ in itertools.product(range(len(DAYS)), range(3))
        ]
        rows[day] = of_day
    leaky = World(tmp_path, rows)
    for split, days in (("train", TRAIN), ("validation", VALIDATION), ("eval", EVAL[:1])):
        found = leaky.values(split, ["like_rate"])
        for day in days:
            labels = np.array([row["like"] for row in rows[day]])
            of_ones = found[day][labels == 1]
            # What three examples with label 0 on each counted day leave of the prior, or what a first seen id reads.
            counted = len({other for other in DAYS if other < day and other >= f"2024-03-{int(day[-2:]) - 3:02d}"})
            np.testing.assert_allclose(of_ones, 0.5 / (2 + 3 * counted), rtol=1e-6)


@pytest.mark.long
def test_an_incremental_day_reads_the_days_that_its_base_has_learned(world: World, tmp_path: Path) -> None:
    from sangam.components.registry import seal
    from sangam.components.registry.base import Base
    from sangam.components.reports.artifact_files import read_ingestion

    base = Base(
        model_uri="model",
        checkpoint_uri="c",
        days=("2024-03-05",),
        transform_graph_uri=str(world.root / "graph"),
        inputs_digest="not read",
        checkpoint_sha256="",
        transform_graph_sha256=seal.sha256_of(world.root / "graph" / "manifest.json"),
    )
    continued = World(tmp_path, world.rows, base)
    # Three days before 2024-03-07, and for the feature without `days` all of the window.
    assert read_ingestion(continued.examples.uri).history_days == ["2024-03-04", "2024-03-05"]
    for split in ("train", "validation", "eval"):
        theirs = world.values(split)
        for day, values in continued.values(split).items():
            np.testing.assert_array_equal(values, theirs[day])
    assert continued.statistics().features == world.statistics().features


@pytest.mark.long
@pytest.mark.real_data
def test_online_retails_own_columns_are_what_the_kinds_make_of_its_labels(tmp_path: Path) -> None:
    if not SHARED_DATA.exists():
        pytest.skip(f"needs the real data beside the checkout, in {SHARED_DATA}")
    labels = ["reorder", "bulk", "high_value"]
    own = {"user": {"user_id": "string"}, "item": {"item_id": "string"}}
    made: dict[str, Any] = {}
    for whose, by in own.items():
        made[f"{whose}_lines_before"] = {"kind": "count", "by": by, "days": 400, **PLAIN}
        for label in labels:
            made[f"{whose}_{label}_rate"] = {
                "kind": "rate",
                "task": label,
                "by": by,
                "days": 400,
                "smoothing": 20,
                "prior": 0.3,
                **PLAIN,
            }
    given = {f"given_{name}": {"kind": "numeric", "column": name, **PLAIN} for name in made}
    for name in ("user", "item"):
        given[f"given_{name}_lines_before"]["type"] = "int"
    inputs = sample.inputs_of(made | given, {label: {"kind": "binary"} for label in labels})
    logs = DayLogs(
        kind="days", format="parquet", pattern="{YYYY}-{MM}-{DD}/*.parquet", train_days=4, missing_days="skip"
    )
    examples = sample.ingested(tmp_path, logs, inputs, "2011-01-27", SHARED_DATA / "online_retail" / "lines")
    transformed(tmp_path, examples, inputs)
    for split in ("train", "eval"):
        ours = sample.values_by_day(tmp_path, split, list(made))
        theirs = sample.values_by_day(tmp_path, split, list(given))
        for day, values in ours.items():
            np.testing.assert_allclose(values, theirs[day], rtol=1e-6, err_msg=day)
            assert values.shape[0] > 100
            assert np.ptp(values, axis=0).min() > 0.1
