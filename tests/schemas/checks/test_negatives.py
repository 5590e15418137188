"""data.negatives: what it needs of the spec, and what it excludes."""

from pathlib import Path
from typing import Any

import pytest

from sangam.schemas.loading import load_spec
from sangam.schemas.problems import SpecError
from tests.errors import tells
from tests.schemas.sample_specs import changed, loaded, write

_NEGATIVES = {"label": "like", "item": "friend", "user": "user_id", "item_columns": ["tags"]}
_VALID: dict[str, Any] = {"data.negatives": _NEGATIVES, "tasks.stars.missing_label": "mask"}
_PLACE = "data.negatives"
_SPLITS: dict[str, Any] = {
    "kind": "splits",
    "format": "parquet",
    "splits": {"train": "train/*", "eval": "test/*"},
    "negatives": {**_NEGATIVES, "days": 2},
}
_TABLE = {
    "kind": "table",
    "pattern": "i/{YYYY}-{MM}-{DD}/*",
    "format": "parquet",
    "keys": {"friend": {"type": "string"}},
    "time": "t",
    "max_age_days": 3,
    "columns": {"age": {}},
}
_COUNT = {"kind": "count", "by": {"user_id": "string"}}
_KEY = {"keys": {"purchase": {"type": "int"}}, "evaluation.list": {"by": "purchase", "k": [10]}}


def test_the_trained_task_is_corrected_by_the_share_of_candidates_and_the_spec_stays_as_written(tmp_path: Path) -> None:
    spec = loaded(tmp_path, _VALID)
    assert spec.ranker().tasks["like"].keep_negatives == 0.04  # type: ignore[union-attr]
    assert spec.tasks["like"].keep_negatives is None  # type: ignore[union-attr]
    equal = loaded(tmp_path, _VALID | {"data.negatives": {**_NEGATIVES, "per_positive": 7, "judged_per_positive": 7}})
    assert equal.ranker().tasks == equal.tasks


def test_a_key_may_be_read_by_draws_alone_and_a_created_column_by_a_key(tmp_path: Path) -> None:
    within = {"keys": {"country": {"type": "string"}}, "data.negatives": {**_NEGATIVES, "within": ["country"]}}
    assert loaded(tmp_path, _VALID | within).data.negatives
    assert loaded(
        tmp_path, _VALID | _KEY | {"data.negatives": {**_NEGATIVES, "list_column": "purchase"}}
    ).data.negatives


@pytest.mark.parametrize(
    ("changes", "place", "value"),
    [
        ({"data.negatives.label": "clicked"}, f"{_PLACE}.label", "(got 'clicked') ... like"),
        ({"data.negatives.label": "rating"}, f"{_PLACE}.label", "kind regression (got 'rating')"),
        ({"tasks.again": {"kind": "binary", "label": "like"}}, f"{_PLACE}.label", "several tasks (got again, like)"),
        ({"tasks.like.keep_negatives": 0.5}, "tasks.like.keep_negatives", "(got 0.5 with"),
        ({"tasks.stars.missing_label": "drop"}, "tasks.stars", "(got missing_label drop)"),
        ({"tasks.like.only_where": "shown"}, "tasks.like.only_where", "(got 'shown')"),
        ({"tasks.like.missing_label": "mask"}, "tasks.like.missing_label", "(got mask)"),
        ({"tasks.like.loss": {"kind": "focal"}}, "tasks.like.loss", "(got per_positive 4 of judged_per_positive 100)"),
        (
            {
                "data.validation_days": 1,
                "training.early_stopping": {"patience": 1, "refit": True},
            },
            "training.early_stopping.refit",
            "(got per_positive 4",
        ),
        (
            {"data": _SPLITS | {"splits": {**_SPLITS["splits"], "validation": {"fraction": 0.1}}}},
            "data.splits.validation",
            "(got fraction 0.1 with",
        ),
        ({"data.negatives.item": "post"}, f"{_PLACE}.item", "(got 'post')"),
        ({"data.negatives.user": "age"}, f"{_PLACE}.user", "a float ... (got 'age')"),
        ({"data.negatives.within": ["tags"]}, f"{_PLACE}.within[0]", "a list ... (got 'tags')"),
        ({"data.negatives.user": "friend"}, f"{_PLACE}.user", "twice (got 'friend')"),
        ({"data.negatives.item_columns": ["age", "age"]}, f"{_PLACE}.item_columns[1]", "(got 'age')"),
        ({"data.negatives.item_columns": ["rating"]}, f"{_PLACE}.item_columns[0]", "(got 'rating')"),
        ({"data.negatives.list_column": "purchase"}, f"{_PLACE}.list_column", "(got 'purchase')"),
        (_KEY | {"data.negatives.list_column": "like"}, f"{_PLACE}.list_column", "(got 'like')"),
        (
            _KEY | {"data.negatives.list_column": "purchase", "features.user.column": "purchase"},
            "features.user",
            "(got 'purchase')",
        ),
        ({"data.negatives.per_positive": 101}, f"{_PLACE}.judged_per_positive", "(got 100, 101)"),
        ({"data": _SPLITS}, f"{_PLACE}.days", "(got 2 with data of kind splits)"),
        (
            {
                "event_time": "at",
                "data.sources": {"items": _TABLE},
                "data.negatives.days": 2,
                "data.negatives.item_columns": ["age"],
            },
            f"{_PLACE}.days",
            "age (got 2)",
        ),
        ({"features.user_count": _COUNT}, "features.user_count", "(got user_count with"),
        ({"event_time": "at", "online": {"guards": []}}, "online", "(got data.negatives)"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, changes: dict[str, Any], place: str, value: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_spec(write(tmp_path / "spec.yaml", changed(_VALID | changes)))
    assert tells(str(caught.value), place, value), str(caught.value)
