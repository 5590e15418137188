"""What columns become: ids and numbers told apart, lists, times, labels, and columns that tell a label."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sangam.pipelines.drafting.guesses import Guess
from sangam.pipelines.drafting.tables import tables_of
from sangam.pipelines.drafting.values import Values
from sangam.schemas.errors import UserError
from sangam.schemas.spec.patterns import FileFormat
from tests.errors import place_and_value
from tests.pipelines.drafting.sample_logs import CLICKED, EVENT_TIME, RNG, ROWS, USERS, drafted, left_out

LABEL = {"clicked": CLICKED}


def feature(tmp_path: Path, column: str, values: Any, name: str = "") -> dict[str, Any]:
    document, _ = drafted(tmp_path, {column: values, **LABEL})
    made: dict[str, Any] = document["features"][name or column]
    return made


def some(values: Any) -> Any:
    return RNG.choice(np.array(values), ROWS)


@pytest.mark.parametrize(
    ("column", "values", "name", "expected"),
    [
        ("item_id", some(range(300)), "item", {"kind": "id", "column": "item_id", "type": "int", "table": "items"}),
        ("tagId", some(range(9)), "tag", {"kind": "id", "column": "tagId", "type": "int", "table": "tags"}),
        ("device", some(range(5)), "device", {"kind": "id", "type": "int", "table": "device"}),
        ("print", some(RNG.integers(2**50, size=300)), "print", {"kind": "id", "type": "int", "table": "print"}),
        ("country", some(["de", "in", "uk"]), "country", {"kind": "id", "type": "string", "table": "country"}),
        ("num_views", some(range(300)), "num_views", {"kind": "numeric", "type": "int"}),
        ("price", RNG.random(ROWS), "price", {"kind": "numeric"}),
        ("Unit Price", RNG.random(ROWS), "unit_price", {"kind": "numeric", "column": "Unit Price"}),
        ("is_member", some([True, False]), "is_member", {"kind": "numeric", "type": "int"}),
        ("position", some(range(1, 20)), "position", {"kind": "numeric", "type": "int", "at_serving": 1}),
    ],
)  # fmt: skip
def test_single_values(tmp_path: Path, column: str, values: Any, name: str, expected: dict[str, Any]) -> None:
    assert feature(tmp_path, column, values, name) == expected


def test_what_is_missing_does_not_stop_a_run(tmp_path: Path) -> None:
    mask = RNG.random(ROWS) < 0.05
    columns = {
        "author_id": pa.array(some(range(50)), mask=mask),
        "price": np.where(mask, np.nan, RNG.random(ROWS)),
        "bought": pa.array(CLICKED, mask=mask),
        **LABEL,
    }
    document, _ = drafted(tmp_path, columns)
    assert document["features"]["author"]["missing_row"] is True
    assert document["features"]["price"]["missing"] == "learned"
    assert document["tasks"]["bought"] == {"kind": "binary", "missing_label": "mask"}
    assert "missing_row" not in document["features"]["user"]


@pytest.mark.parametrize(
    ("column", "values", "why"),
    [
        ("version", np.ones(ROWS), "one value"),
        ("request_id", [f"r{number}" for number in range(ROWS)], "another text in each row"),
        ("session_id", np.arange(ROWS), "another id in each row"),
        ("city_id", some([1.0, 2.0, 3.0]), "ids written as floats"),
        ("n" * 129, RNG.random(ROWS), "129 characters"),
        ("sample_weight", RNG.random(ROWS), "weight"),
        ("review", [f"the story of number {n} is longer than all the others" for n in range(ROWS)], "free text"),
        ("moment", pa.array([1] * ROWS, pa.time32("s")), "time32"),
        ("nothing", pa.nulls(ROWS), "no row"),
    ],
)
def test_what_cannot_be_a_feature_is_left_out_with_the_reason(
    tmp_path: Path, column: str, values: Any, why: str
) -> None:
    document, made = drafted(tmp_path, {column: values, **LABEL})
    assert why in left_out(made)[column]
    assert set(document["features"]) == {"user"}
    assert column in made.text


@pytest.mark.parametrize(
    ("values", "form"),
    [
        (np.array(EVENT_TIME, "datetime64[s]"), {"kind": "time", "zone": "UTC"}),
        (EVENT_TIME * 1000, {"kind": "time", "unit": "ms"}),
        (EVENT_TIME + 0.5, {"kind": "time", "unit": "s"}),
        ([f"{each}Z" for each in np.array(EVENT_TIME, "datetime64[s]")], {"kind": "time", "zone": "UTC"}),
        (
            [str(each).replace("-", "/").replace("T", " ") for each in np.array(EVENT_TIME, "datetime64[s]")],
            {"kind": "time", "format": "%Y/%m/%d %H:%M:%S", "zone": "UTC"},
        ),
    ],
)
def test_times_of_any_form_are_the_time_of_the_event(tmp_path: Path, values: Any, form: dict[str, Any]) -> None:
    document, made = drafted(tmp_path, {"shown_at": values, **LABEL})
    assert document["data"]["columns"] == {"shown_at": form}
    assert made.guesses.event_time is not None
    assert made.guesses.event_time.column == "shown_at"
    assert document["features"]["hour"] == {"kind": "time", "column": "shown_at", "part": "hour"}


def test_lists(tmp_path: Path) -> None:
    posts = RNG.integers(100, 400, ROWS)
    lengths = RNG.integers(0, 6, ROWS)
    recent = [posts[RNG.integers(ROWS, size=length)].tolist() for length in RNG.permutation(lengths)]
    columns = {
        "post_id": posts,
        "recent_posts": recent,
        "other_posts": [[post for post in few if post != own] for few, own in zip(recent, posts, strict=True)],
        "tags": [[f"t{tag}" for tag in RNG.integers(20, size=length)] for length in lengths],
        "tag_scores": [RNG.random(length).tolist() for length in lengths],
        "image": [RNG.random(8).tolist() for _ in range(ROWS)],
        "curve": [RNG.random(number % 3).tolist() for number in range(ROWS)],
        **LABEL,
    }
    document, made = drafted(tmp_path, columns)
    features = document["features"]
    assert features["tags"] == {
        "kind": "ids", "type": "string", "table": "tags", "combiner": "mean", "max_values": 5, "weights": "tag_scores",
    }  # fmt: skip
    assert features["recent_posts"] == {"kind": "sequence", "type": "int", "table": "posts", "max_length": 5}
    assert features["post_in_recent_posts"]["kind"] == "match"
    assert features["other_posts"]["kind"] == "sequence"
    assert "post_in_other_posts" not in features  # It would be the same in all rows.
    assert features["image"] == {"kind": "vector", "dim": 8, "missing": 0.0}
    assert set(left_out(made)) == {"tag_scores", "curve", "other_posts"}
    assert "# post_in_other_posts: {kind: match" in made.text


@pytest.mark.parametrize("file_format", ["parquet", "csv"])
def test_lists_of_one_length_in_every_row_are_one_sequence(tmp_path: Path, file_format: FileFormat) -> None:
    rng = np.random.default_rng(2)  # Its own: the unit follows from the draws.
    posts, lengths = rng.integers(100, 400, ROWS), rng.integers(0, 6, ROWS)
    times = [EVENT_TIME[row] - np.sort(rng.integers(10**6, size=length))[::-1] for row, length in enumerate(lengths)]
    lists = {
        "recent_posts": [posts[rng.integers(ROWS, size=length)] for length in lengths],
        "recent_actions": [rng.choice(["like", "skip"], length) for length in lengths],
        "recent_seconds": [rng.random(length) + 0.5 for length in lengths],
        "recent_at": times,
        "tags": [rng.choice(["a", "b"], number % 3) for number in range(ROWS)],
    }
    is_csv = file_format == "csv"
    written = {
        name: ["|".join(map(str, row)) if is_csv else row.tolist() for row in rows] for name, rows in lists.items()
    }
    columns = {"post_id": posts, "when": EVENT_TIME, **written, **LABEL}
    document, made = drafted(tmp_path, columns, file_format=file_format)
    features = document["features"]
    assert features["recent_posts"] == {
        "kind": "sequence", "type": "string" if is_csv else "int", "table": "posts", "max_length": 5, "keep": "last",
        "beside": {
            "recent_actions": {"kind": "id", "type": "string", "table": "recent_actions"},
            "recent_seconds": {"kind": "amount", "unit": 0.2},
        },
        "times": {"column": "recent_at", "at": "when"},
    }  # fmt: skip
    assert {"recent_actions", "recent_seconds", "recent_at"}.isdisjoint({*features, *left_out(made)})
    assert features["tags"]["kind"] == "ids"
    tables = document["tables"]
    assert tables["recent_actions"]["dim"] == tables["posts"]["dim"]


def test_times(tmp_path: Path) -> None:
    born = EVENT_TIME - RNG.integers(10**6, size=ROWS)
    columns = {"born_at": born, "when": EVENT_TIME, "read_at": EVENT_TIME + 60, **LABEL}
    document, made = drafted(tmp_path, columns)
    assert document["features"]["born_age"] == {"kind": "age", "since": "born_at", "at": "when"}
    assert document["features"]["hour"] == {"kind": "time", "column": "when", "part": "hour"}
    assert "later than the event" in left_out(made)["read_at"]
    # Without rows that expire and without joined logs a spec may not name it.
    assert "\n# event_time: when\n" in made.text


def test_labels_are_guessed_by_name_and_by_what_decides_them(tmp_path: Path) -> None:
    of_user = {f"u{number}": number % 2 for number in range(200)}
    columns = {
        "clicked": CLICKED,
        "bulk": some([0, 1]),
        "premium": [of_user[user] for user in USERS],
        "liked_before": some([0, 1]),
    }
    document, made = drafted(tmp_path, columns)
    assert document["tasks"] == {"clicked": {"kind": "binary"}, "bulk": {"kind": "binary"}}
    assert {"premium", "liked_before"} < set(document["features"])
    assert not left_out(made)


def test_other_actions_are_no_features_where_labels_are_named(tmp_path: Path) -> None:
    columns = {"clicked": CLICKED, "shared": some([0, 1]), "bulk": some([0, 1]), "is_new": some([0, 1])}
    document, made = drafted(tmp_path, columns, ["clicked"])
    assert list(document["tasks"]) == ["clicked"]
    assert set(left_out(made)) == {"shared", "bulk"}
    assert set(document["features"]) == {"user", "is_new"}


def test_a_number_that_is_named_is_a_regression(tmp_path: Path) -> None:
    columns = {"stars": some([1.0, 2.0, 5.0]), "doubled": np.arange(ROWS)}
    document, _ = drafted(tmp_path, columns | {"twice": columns["stars"] * 2}, ["stars"])
    [task] = document["tasks"].values()
    assert task == {"kind": "regression", "center": pytest.approx(2.7, abs=0.2), "scale": pytest.approx(1.7, abs=0.2)}
    assert document["gates"][0]["metric"] == "rmse"
    assert set(document["features"]) == {"user", "doubled"}


def test_a_label_of_money_is_predicted_by_its_logarithm(tmp_path: Path) -> None:
    document, _ = drafted(tmp_path, {"spent": np.exp(RNG.normal(3, 1.5, ROWS)).round(2), **LABEL}, ["spent"])
    task = document["tasks"]["spent"]
    assert (task["kind"], task["loss"]) == ("regression", {"kind": "log"})
    assert (task["center"], task["scale"]) == (pytest.approx(3, abs=0.2), pytest.approx(1.5, abs=0.2))


@pytest.mark.parametrize(
    "leak",
    [
        CLICKED,
        1 - CLICKED,
        CLICKED * RNG.integers(1, 100, ROWS),
        np.where(CLICKED == 1, RNG.random(ROWS) + 1, RNG.random(ROWS)),
        np.where(CLICKED & (RNG.random(ROWS) < 0.5), RNG.random(ROWS), 0.0),
        pa.array(EVENT_TIME, mask=CLICKED == 0),
        pa.array(["late"] * ROWS, mask=CLICKED == 0),
        np.where(CLICKED == 1, "yes", some(["no", "never"])),
        [["a"] if one else [] for one in CLICKED],
    ],
    ids=["equal", "negated", "amount", "threshold", "often there", "time", "text there", "texts", "list"],
)
def test_what_tells_a_label_is_no_feature(tmp_path: Path, leak: Any) -> None:
    document, made = drafted(tmp_path, {"after": leak, **LABEL}, ["clicked"])
    assert left_out(made)["after"].startswith("leak: ")
    assert "label clicked" in left_out(made)["after"]
    assert set(document["features"]) == {"user"}


@pytest.mark.parametrize(
    "strong",
    [
        np.where(RNG.random(ROWS) < 0.9, CLICKED, 1 - CLICKED) * 2.5,
        np.where(CLICKED == 1, RNG.normal(2, 1, ROWS), RNG.normal(0, 1, ROWS)),
        pa.array(RNG.random(ROWS), mask=(CLICKED == 0) & (RNG.random(ROWS) < 0.9)),
    ],
    ids=["nine in ten", "two deviations", "mostly missing"],
)
def test_what_only_helps_is_a_feature(tmp_path: Path, strong: Any) -> None:
    document, _ = drafted(tmp_path, {"strong": strong, **LABEL}, ["clicked"])
    assert "strong" in document["features"]


def test_what_may_count_the_event_itself_is_marked(tmp_path: Path) -> None:
    columns = {"watch_s": RNG.random(ROWS), "ctr": RNG.random(ROWS), "price": RNG.random(ROWS), **LABEL}
    _, made = drafted(tmp_path, columns)
    assert {each.column for each in made.guesses.features if "check" in each.why} == {"watch_s", "ctr"}


def test_equal_labels_become_one_task(tmp_path: Path) -> None:
    document, made = drafted(tmp_path, {"clicked": CLICKED, "skipped": 1 - CLICKED})
    assert list(document["tasks"]) == ["clicked"]
    assert "negated" in left_out(made)["skipped"]


def test_floats_that_pandas_made_of_a_label_are_one(tmp_path: Path) -> None:
    liked = np.where(RNG.random(ROWS) < 0.05, np.nan, CLICKED)
    document, _ = drafted(tmp_path, {"liked": liked, "user_id": some(range(50))})
    assert document["tasks"] == {"liked": {"kind": "binary", "missing_label": "mask"}}


@pytest.mark.parametrize(
    ("columns", "labels", "value"),
    [
        ({"price": RNG.random(ROWS)}, [], "price, user_id"),
        ({f"answer{number}": some([0, 1]) for number in range(6)}, [], "answer0"),
        (LABEL, ["liked"], "(got 'liked')"),
        (LABEL, ["user_id"], "(got 'user_id'"),
        ({"liked": [{"a": 1}] * ROWS}, ["liked"], "(got 'liked'"),
    ],
)
def test_labels_that_are_none_are_told(tmp_path: Path, columns: dict[str, Any], labels: list[str], value: str) -> None:
    with pytest.raises(UserError, match=place_and_value("--label", value)):
        drafted(tmp_path, columns, labels)


def test_the_table_of_many_ids_waits_for_their_second_occurrence(tmp_path: Path) -> None:
    ids = np.concatenate([np.arange(8_000), np.repeat(np.arange(8_000, 12_000), 3)])
    guess = Guess("item_id", "id", "", "item", {"kind": "id", "type": "int", "table": "items"})
    table = tables_of([guess], {"item_id": Values("int", pa.array(ids))})["items"]
    assert table.settings == {"dim": 16, "admission": {"kind": "count", "at_least": 2}}
    assert "67%" in table.why
