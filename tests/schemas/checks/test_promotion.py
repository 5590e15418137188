"""Mistakes in a push after the shadow are found before anything runs."""

from pathlib import Path
from typing import Any

import pytest

from sangam.schemas.loading import load_spec
from sangam.schemas.problems import SpecError
from tests.components.promotion.sample_shadow import document
from tests.errors import tells
from tests.schemas.sample_specs import REMOVED, write

DAYS = {"kind": "days", "format": "parquet", "pattern": "{YYYY}-{MM}-{DD}/*.parquet", "train_days": 2}
MISTAKES: list[tuple[dict[str, Any], str, str]] = [
    ({"push.after": "light"}, "push.after", "got 'light'"),
    ({"push.after": REMOVED}, "push", "hours ... after: shadow"),
    ({"push.hours": 0}, "push.hours", "got 0"),
    ({"push.path": "s3://bucket/serving"}, "push.after", "got path 's3://bucket/serving'"),
    ({"serving": {}}, "push.after", "serving.log ... got none"),
    ({"serving": {"log": {"share": 0.5}}}, "push.after", "serving.shadow ... got none ... 0.5"),
    ({"data": DAYS}, "push.after", "(got data.kind 'days')"),
]


@pytest.mark.parametrize(("changes", "place", "value"), MISTAKES)
def test_mistake_is_told_with_its_place(tmp_path: Path, changes: dict[str, Any], place: str, value: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_spec(write(tmp_path / "spec.yaml", document(changes)))
    assert tells(str(caught.value), place, value), str(caught.value)


def test_a_spec_without_the_shadow_keeps_its_digest(tmp_path: Path) -> None:
    push = load_spec(
        write(tmp_path / "spec.yaml", document({"push": {"kind": "directory", "path": "x"}, "serving": {}}))
    ).push
    assert push.model_dump(mode="json") == {"kind": "directory", "path": "x"}
