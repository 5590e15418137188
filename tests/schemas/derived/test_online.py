"""What online training trains, and what that costs."""

from pathlib import Path
from typing import Any

import pytest

from sangam.schemas.derived.online import shadow_text, trainings
from sangam.schemas.derived.plan import plan
from sangam.schemas.loading import load_spec
from sangam.schemas.spec import Spec
from tests.components.promotion.sample_shadow import document
from tests.errors import mentions
from tests.schemas.sample_specs import loaded, write


def _spec(tmp_path: Path, online: dict[str, Any]) -> Spec:
    return load_spec(write(tmp_path / "spec.yaml", document({"online": online, "cluster": {"ranks": 3}})))


@pytest.mark.parametrize(("online", "expected"), [({}, 2), ({"shadow": True}, 2), ({"shadow": False}, 1)])
def test_the_version_in_the_shadow_is_trained_unless_the_spec_says_otherwise(
    tmp_path: Path, online: dict[str, Any], expected: int
) -> None:
    assert trainings(_spec(tmp_path, online)) == expected


def test_where_no_version_waits_one_is_trained(tmp_path: Path) -> None:
    assert trainings(loaded(tmp_path, {"event_time": "at", "online": {}})) == 1


def test_the_plan_tells_what_the_version_in_the_shadow_needs(tmp_path: Path) -> None:
    spec = _spec(tmp_path, {})
    made = plan(spec, rows={"users": 1000, "posts": 1000}, ranks=3)
    assert mentions(shadow_text(spec, made), "3 more ranks, ... online.shadow")
    assert shadow_text(_spec(tmp_path, {"shadow": False}), made) == ""
