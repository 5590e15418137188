"""A push into the shadow of the live version: whole or not at all, and one version at a time."""

from pathlib import Path

import pytest

from sangam.components.registry import versions
from sangam.components.steps.pusher.directory import Pushed, push
from sangam.components.steps.pusher.manifest import CARD_FILE
from sangam.schemas.errors import UserError
from tests.components.steps.pusher.test_directory import NOW, PROVENANCE, make_model, names_in, pushed
from tests.errors import mentions, place_and_value
from tests.fakes.killed_moves import killed_at_move


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "serving"


def into_shadow(model: Path, target: Path) -> Pushed:
    return push(
        model=model,
        target=target,
        day="20111130",
        provenance=PROVENANCE,
        card=lambda version: f"# tiny, version {version}\n",
        now=NOW,
        after_hours=20,
    )


def test_the_first_version_is_live_and_later_ones_wait_in_its_shadow(tmp_path: Path, target: Path) -> None:
    first, second, third = (
        into_shadow(make_model(tmp_path / f"model {weights}", weights), target) for weights in "abc"
    )
    assert (first.version, first.shadow_of) == ("20111130001", "")
    assert (second.version, second.path, second.shadow_of) == (
        "20111130002",
        str(target / "20111130002"),
        "20111130001",
    )
    assert names_in(target) == ["20111130001", "shadow", "withdrawn"]
    assert versions.shadow(target) == third.version == "20111130003"
    assert versions.damage(target / "shadow" / third.version) is None
    card = (target / "shadow" / third.version / CARD_FILE).read_text()
    assert mentions(card, "# tiny, version 20111130003")
    assert mentions(card, "waits in the shadow of 20111130001; ... 20 hours after the push")
    assert mentions(versions.withdrawn(target)["20111130002"].because, "20111130003 was pushed into the shadow")
    again = into_shadow(tmp_path / "model c", target)
    assert (again.version, again.shadow_of) == ("20111130003", "20111130001")
    with pytest.raises(UserError, match=place_and_value("push", "20111130002 ... into the shadow")):
        into_shadow(tmp_path / "model b", target)


def test_a_push_into_the_shadow_that_was_killed_leaves_nothing(tmp_path: Path, target: Path) -> None:
    pushed(make_model(tmp_path / "a", "a"), target)
    model = make_model(tmp_path / "b", "b")
    with killed_at_move(2):
        into_shadow(model, target)
    assert (versions.shadow(target), names_in(target / "shadow")) == (None, [])
    assert into_shadow(model, target).version == "20111130002"
