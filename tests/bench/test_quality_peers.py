"""Public logs as days, and what trees read of a draft: small raw files, a generated feed, and trees of scikit-learn."""

import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from bench.lagged import before, rates
from bench.quality.peers.columns import columns_of, rows_of, table_of
from bench.quality.peers.results import OURS, STOPPED, Measured, Result, add, markdown, read
from bench.quality.peers.trees import Part, Trees, scores_of
from bench.quality.sets import complete_journey, movielens
from bench.quality.sets.days import recent_before, write_days
from sangam.components.arrow_files import open_parquet
from sangam.pipelines.drafting import draft
from sangam.pipelines.synthetic import generate
from sangam.schemas.loading import load_spec

DAY = 86_400


def test_only_earlier_days_of_the_same_id_count() -> None:
    ids, days, labels = (np.array(each) for each in ([7, 7, 8, 7, 8, 7], [1, 1, 1, 2, 3, 5], [1.0, 0, 1, 1, 0, 0]))
    shuffled = np.array([3, 0, 5, 1, 4, 2])
    assert before(ids, days, labels).tolist() == [0, 0, 0, 1, 1, 2]
    assert before(ids[shuffled], days[shuffled], labels[shuffled]).tolist() == [1, 0, 2, 0, 1, 0]
    assert rates(ids, days, labels, mean=0.5, prior_rows=2).tolist() == [0.5, 0.5, 0.5, 0.5, 2 / 3, 3 / 5]


def test_a_history_ends_before_its_day_and_begins_with_the_newest_item() -> None:
    times = np.array([0, 1, 2, DAY, DAY + 1, 2 * DAY])
    found = recent_before(["a"] * 6, ["x", "y", "x", "z", "y", "w"], times, 2)
    assert found == [[], [], [], ["x", "y"], ["x", "y"], ["y", "z"]]


def test_a_rating_is_a_row_with_its_user_its_film_and_what_was_before(tmp_path: Path) -> None:
    ratings = (
        b"user_id:token\titem_id:token\trating:float\ttimestamp:float\n1\t5\t4\t90000\n2\t5\t5\t100\n1\t6\t3\t200\n"
    )
    films = (
        b'item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq\n5\t"Q\t1995\tDrama War\n6\tR\t\t\n'
    )
    users = (
        b"user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token\n"
        b"1\t24\tM\tx\t85711\n2\t53\tF\ty\tT8H1N\n"
    )
    made = movielens.rows(ratings, films, users)
    assert made["user_id"].to_pylist() == ["2", "1", "1"]
    assert made["release_year"].to_pylist() == [1995, None, 1995]
    assert made["genres"].to_pylist()[0] == ["Drama", "War"]
    assert made["user_recent_movies"].to_pylist() == [[], [], ["6"]]
    assert made["movie_ratings_before"].to_pylist() == [0, 0, 1]
    assert (made["liked"].to_pylist(), made["loved"].to_pylist()) == ([1, 0, 1], [1, 0, 0])
    assert (made["hour"].to_pylist(), made["weekday"].to_pylist()) == ([0, 0, 1], [3, 3, 4])
    write_days(made, tmp_path)
    assert [day.name for day in sorted(tmp_path.iterdir())] == ["1970-01-01", "1970-01-02"]
    assert open_parquet(tmp_path / "1970-01-02" / "rows.parquet").read()["event_time"].to_pylist() == [90000]


def test_a_line_of_a_basket_is_a_reorder_from_the_next_day_on() -> None:
    times = [datetime.datetime(2017, 1, day, 9, minute) for day, minute in ((2, 0), (2, 1), (3, 0))]
    lines = pa.table(
        {"household_id": [1, 1, 1], "store_id": [3, 3, 3], "basket_id": [10, 11, 12], "product_id": [5, 5, 5]}
        | {"quantity": [1, 2, 1], "retail_disc": [0.0, 0.5, 0.0]}
        | {"transaction_timestamp": pa.array(times, pa.timestamp("ns"))}
    )
    products = pa.table({"product_id": [5], "department": ["GROCERY"]})
    made = complete_journey.rows(lines, products, pa.table({"household_id": [2], "age": ["65+"]}))
    assert made["reorder"].to_pylist() == [0, 0, 1]
    assert (made["bulk"].to_pylist(), made["discounted"].to_pylist()) == ([0, 1, 0], [0, 1, 0])
    assert made["household_recent_products"].to_pylist() == [[], [], [5]]
    assert made["product_lines_before"].to_pylist() == [0, 0, 2]
    assert (made["department"].to_pylist()[0], made["age"].to_pylist()[0]) == ("GROCERY", None)


def _sklearn(train: Part, validation: Part | None, trees: int, categories: list[int], seed: int) -> Trees:
    model = HistGradientBoostingClassifier(max_iter=5, max_leaf_nodes=4).fit(train.x, train.y)
    return Trees(5, lambda x: model.predict_proba(x)[:, 1])


@pytest.fixture(scope="module")
def feed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("feed")
    first = datetime.date(2024, 3, 1)
    generate(folder, first_day=first, num_days=4, rows_per_day=600, num_users=40, num_posts=60, seed=1)
    return folder


def test_trees_learn_from_the_columns_of_a_draft_and_stop_on_the_newest_train_day(feed: Path, tmp_path: Path) -> None:
    spec_file = tmp_path / "spec.yaml"
    spec_file.write_text(draft(feed, "feed", ["long_watch"]).text)
    spec = load_spec(spec_file)
    rows = rows_of(spec, "2024-03-04", feed)
    days = {part: len(set(rows.days[rows.parts == part])) for part in ("train", "validation", "eval")}
    assert days == {"train": 2, "validation": 1, "eval": 1}
    columns, categories = columns_of(spec, rows.table)
    assert {"user", "author"} <= categories <= set(columns)
    assert columns["hashtags"].tolist() == [len(each or []) for each in rows.table["hashtags"].to_pylist()]
    table = table_of(spec, rows, ["long_watch"], is_lagged=True)
    counts_and_rates = table["x"][rows.days == rows.days.min(), len(columns) :]
    assert np.ptp(counts_and_rates, 0).max() == 0, "no day is before the first"
    scores, [cost] = scores_of(_sklearn, table, seed=1)
    assert cost["trees"] == 5
    for way in ("stopped", "refitted"):
        assert roc_auc_score(table["labels"][table["parts"] == 2, 0], scores[way][:, 0]) > 0.6
    assert (scores["stopped"] != scores["refitted"]).any()


def test_what_is_more_than_a_little_below_lightgbm_is_marked(tmp_path: Path) -> None:
    file = tmp_path / "peers.jsonl"

    def measured(auc: float, ratio: float) -> Measured:
        return Measured({"like": auc}, {"like": ratio}, 12.0, 9.0, "")

    add(file, Result("feed", STOPPED, 1, "c1", measured(0.75, 1.2)))
    for auc, ratio, expected in (
        (0.747, 1.05, "0.7470 (1.050) |"),
        (0.746, 1.0, "0.7460 (1.000) **missed: AUC** |"),
        (0.8, 0.94, "0.8000 (0.940) **missed: calibration** |"),
    ):
        add(file, Result("feed", OURS, 1, "c2", measured(auc, ratio)))
        made = markdown(read(file), {"feed": "the feed", "other": "not measured"})
        assert f"| the feed | like | {expected} 0.7500 (1.200) |" in made
    assert "| the feed | 12 | 12 |" in made
    assert "not measured" not in made
