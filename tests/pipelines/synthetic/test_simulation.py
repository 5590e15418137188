"""The simulated feed: deterministic, skewed, growing, and with structure that a ranker can learn."""

import datetime
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from sangam.pipelines.synthetic import Scale, SimulatedDay, simulate
from sangam.schemas.derived.columns import columns
from sangam.schemas.loading import load_spec

pytestmark = pytest.mark.slow

FIRST_DAY = datetime.date(2024, 2, 26)
SCALE = Scale(rows_per_day=20_000, num_users=4_000, num_posts=4_000, seed=7)
LABEL_BANDS = {"like": (0.06, 0.10), "share": (0.010, 0.020), "download": (0.02, 0.04), "long_watch": (0.30, 0.40)}


@pytest.fixture(scope="module")
def days() -> list[SimulatedDay]:
    return list(simulate(SCALE, first_day=FIRST_DAY, num_days=7))


def _all(days: list[SimulatedDay], column: str) -> Any:
    return np.concatenate([day.table[column].to_numpy() for day in days])


def test_a_day_does_not_depend_on_how_many_are_asked_for(days: list[SimulatedDay]) -> None:
    for short, long in zip(simulate(SCALE, first_day=FIRST_DAY, num_days=2), days, strict=False):
        assert short.table.equals(long.table)


def test_another_seed_makes_other_logs(days: list[SimulatedDay]) -> None:
    scale = Scale(rows_per_day=20_000, num_users=4_000, num_posts=4_000, seed=8)
    assert not next(simulate(scale, first_day=FIRST_DAY, num_days=1)).table.equals(days[0].table)


def test_every_day_brings_new_users_and_posts(days: list[SimulatedDay]) -> None:
    for column in ("user_id", "post_id"):
        seen = set(days[0].table[column].to_pylist())
        for day in days[1:]:
            today = set(day.table[column].to_pylist())
            assert len(today - seen) > 20
            seen |= today


def test_the_most_viewed_hundredth_of_posts_has_over_a_fifth_of_the_views(days: list[SimulatedDay]) -> None:
    _, counts = np.unique(_all(days, "post_id"), return_counts=True)
    top = np.sort(counts)[::-1][: len(counts) // 100]
    assert top.sum() / counts.sum() > 0.2


def test_posts_lose_views_as_they_age(days: list[SimulatedDay]) -> None:
    first = set(days[0].table["post_id"].to_pylist())
    shares = [np.mean([post in first for post in day.table["post_id"].to_pylist()]) for day in days]
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] < 0.7


@pytest.mark.parametrize("task", LABEL_BANDS)
def test_labels_are_as_rare_as_declared(days: list[SimulatedDay], task: str) -> None:
    low, high = LABEL_BANDS[task]
    for day in days:
        assert set(day.table[task].unique().to_pylist()) == {0, 1}
    assert low < _all(days, task).mean() < high


@pytest.mark.parametrize("task", LABEL_BANDS)
def test_the_true_probabilities_rank_well(days: list[SimulatedDay], task: str) -> None:
    oracle = np.concatenate([day.probabilities[task] for day in days])
    assert roc_auc_score(_all(days, task), oracle) >= 0.75


def test_logs_hold_the_columns_of_the_demo_spec(days: list[SimulatedDay], demo_spec_path: Any) -> None:
    schema = days[0].table.schema
    arrow = {"string": "string", "int": "int64", "float": "double"}
    for column in columns(load_spec(demo_spec_path)):
        kind = arrow[column.type]
        assert str(schema.field(column.name).type) == (f"list<item: {kind}>" if column.is_list else kind), column.name
        if column.is_required and not column.is_list:
            assert all(day.table[column.name].null_count == 0 for day in days), column.name


def test_logs_hold_nulls_empty_lists_and_outliers(days: list[SimulatedDay]) -> None:
    table = days[1].table
    for column in ("author_id", "language", "post_age_h", "network_mbps"):
        assert 0 < table[column].null_count < 2_000
    lengths = np.array([len(tags) for tags in table["hashtags"].to_pylist()])
    assert lengths.min() == 0
    assert lengths.max() == 8
    for column in ("author_followers", "network_mbps"):
        values = table[column].drop_null().to_numpy()
        assert values.max() > 100 * np.median(values)


def test_time_of_an_event_lies_on_its_day_and_in_its_hour(days: list[SimulatedDay]) -> None:
    for day in days:
        time_s = day.table["event_time"].to_numpy()
        midnight = int(datetime.datetime.combine(day.date, datetime.time(), datetime.UTC).timestamp())
        assert (np.diff(time_s) >= 0).all()
        assert ((time_s - midnight) // 3_600 == day.table["hour"].to_numpy()).all()
        assert day.table["post_age_h"].drop_null().to_numpy().min() >= 0


def test_recent_posts_are_the_users_views_of_earlier_days_newest_first(days: list[SimulatedDay]) -> None:
    watched: dict[str, list[int]] = {}
    for day in days[:4]:
        rows = day.table.select(["user_id", "post_id", "event_time", "recent_posts"]).to_pylist()
        for row in rows:
            assert set(row["recent_posts"]) == set(watched.get(row["user_id"], [])[:30])
            assert len(row["recent_posts"]) == len(set(row["recent_posts"]))
        for row in sorted(rows, key=lambda row: (row["event_time"], -row["post_id"])):
            views = watched.setdefault(row["user_id"], [])
            if row["post_id"] in views:
                views.remove(row["post_id"])
            views.insert(0, row["post_id"])


def test_a_simple_model_learns_likes_of_the_next_day(days: list[SimulatedDay]) -> None:
    # The means come from days that the model is not fitted on, so that it meets the same noise as on the last day.
    past, fitted, last = days[:-2], days[-2:-1], days[-1:]
    columns = ("user_id", "post_id", "author_id", "tab", "language")
    model = LogisticRegression(C=100).fit(_mean_likes(past, fitted, columns), _all(fitted, "like"))
    scores = model.predict_proba(_mean_likes(past, last, columns))[:, 1]
    assert roc_auc_score(_all(last, "like"), scores) > 0.6


def _mean_likes(past: list[SimulatedDay], days: list[SimulatedDay], columns: Sequence[str], prior: float = 20) -> Any:
    likes = _all(past, "like")
    encoded = []
    for column in columns:
        keys, index = np.unique(_all(past, column).astype(str), return_inverse=True)
        means = (np.bincount(index, likes) + prior * likes.mean()) / (np.bincount(index) + prior)
        mean_of = dict(zip(keys, np.log(means / (1 - means)), strict=True))
        unknown = np.log(likes.mean() / (1 - likes.mean()))
        encoded.append([mean_of.get(key, unknown) for key in _all(days, column).astype(str)])
    return np.array(encoded).T
