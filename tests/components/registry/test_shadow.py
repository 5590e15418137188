"""Versions in the shadow are made live, dropped and superseded whole, also where folders cannot be renamed."""

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from sangam.components.registry import shadow
from sangam.components.registry.record import mark_places
from sangam.components.registry.shadow import Decision
from sangam.components.registry.versions import damage, locked, restore, versions, withdrawn
from sangam.schemas.contracts import deltas
from sangam.schemas.errors import UserError
from tests.components.promotion.sample_shadow import LIVE, PUSHED, SHADOW, put
from tests.components.registry.sample_blessings import blessing
from tests.errors import mentions, place_and_value
from tests.fakes.killed_moves import killed_at_move

NOW = PUSHED + datetime.timedelta(hours=24)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put(tmp_path, LIVE)
    put(tmp_path / "shadow", SHADOW)
    return tmp_path


def decision(verdict: Any = "promoted", version: str = SHADOW) -> Decision:
    return Decision(
        version=version, live=LIVE, verdict=verdict, because="it is | better", measured=["like: AUC"], at=NOW
    )


def test_a_version_waits_since_its_push(folder: Path) -> None:
    assert shadow.waiting(folder) == shadow.Waiting(version=SHADOW, live=LIVE, lineage=LIVE, since=PUSHED)
    assert shadow.place_of(folder / SHADOW) == folder / "shadow" / SHADOW
    assert shadow.waiting(folder / "none") is None


def test_a_promoted_version_is_live_whole_and_tells_why(folder: Path) -> None:
    shadow.promote(folder, decision())
    assert (versions(folder), shadow.waiting(folder)) == ([LIVE, SHADOW], None)
    assert damage(folder / SHADOW) is None
    assert (folder / SHADOW / "MODEL_CARD.md").read_text() == (
        f"# small, version {SHADOW}\n\n## Shadow\n\nMade live at 2024-03-09 06:00 UTC after the shadow of {LIVE}, "
        "because it is \\| better.\n\nlike: AUC\n"
    )
    assert shadow.decision_on(folder, SHADOW) == decision()


def test_the_deltas_of_a_version_in_the_shadow_follow_it_once_it_is_live(folder: Path) -> None:
    before = deltas.lineage_of(folder / "shadow" / SHADOW)
    manifest = (folder / "shadow" / SHADOW / "manifest.json").read_bytes()
    assert before == deltas.Lineage(lineage=SHADOW, number=0, sha256=deltas.sha256_at(folder, SHADOW, 0))
    shadow.promote(folder, decision())
    assert (folder / SHADOW / "manifest.json").read_bytes() != manifest  # It has the new model card's checksum.
    assert deltas.lineage_of(folder / SHADOW) == before
    assert deltas.sha256_at(folder, SHADOW, 0) == before.sha256 != deltas.sha256_at(folder, LIVE, 0)


def test_a_dropped_version_is_withdrawn_and_can_be_put_back(folder: Path) -> None:
    shadow.drop(folder, decision("dropped"))
    assert (versions(folder), versions(folder / "shadow")) == ([LIVE], [])
    assert withdrawn(folder)[SHADOW].because == "it is | better"
    assert damage(folder / "withdrawn" / SHADOW) is None
    assert shadow.is_dropped(folder, SHADOW)
    restore(folder, SHADOW)
    assert versions(folder) == [LIVE, SHADOW]
    assert not shadow.is_dropped(folder, SHADOW)


def test_a_newer_version_takes_the_place_of_those_that_wait(folder: Path) -> None:
    put(folder / "shadow", "20240308001")
    with locked(folder):
        assert shadow.supersede(folder, now=NOW) == [SHADOW]
        assert shadow.supersede(folder, now=NOW) == []
    assert versions(folder / "shadow") == ["20240308001"]
    assert mentions(withdrawn(folder)[SHADOW].because, "20240308001 was pushed into the shadow")


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_a_promotion_that_was_killed_is_completed(folder: Path, number: int) -> None:
    with killed_at_move(number, moves_folders=False):
        shadow.promote(folder, decision())
    assert versions(folder) == [LIVE]
    try:
        shadow.promote(folder, decision())
    except UserError as error:  # Completed before it could be done again.
        assert mentions(str(error), f"{folder}: does not wait")
    assert (versions(folder), versions(folder / "shadow")) == ([LIVE, SHADOW], [])
    assert damage(folder / SHADOW) is None


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_a_drop_that_was_killed_is_completed(folder: Path, number: int) -> None:
    with killed_at_move(number, moves_folders=False):
        shadow.drop(folder, decision("dropped"))
    assert versions(folder) == [LIVE]
    if versions(folder / "shadow"):
        shadow.drop(folder, decision("dropped"))
    restore(folder, SHADOW)
    assert damage(folder / SHADOW) is None
    assert list((folder / "withdrawn").iterdir()) == []


def test_what_must_not_be_promoted_waits(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    (folder / "shadow" / SHADOW / "variables" / "data").write_bytes(b"other")
    with pytest.raises(UserError, match=place_and_value(str(folder / "shadow" / SHADOW), "variables/data")):
        shadow.promote(folder, decision())
    put(folder, "20240309001")
    with pytest.raises(UserError, match=place_and_value(str(folder), f"got {SHADOW}")):
        shadow.promote(folder, decision())
    with pytest.raises(UserError, match=place_and_value(str(folder), "got 20240308001")):
        shadow.promote(folder, decision(version="20240308001"))
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (folder / "shadow").rename(elsewhere / "shadow")
    (folder / "shadow").symlink_to(elsewhere / "shadow")
    with pytest.raises(UserError, match=place_and_value(str(folder / "shadow"), "is a link")):
        shadow.drop(folder, decision("dropped"))
    assert versions(folder) == [LIVE, "20240309001"]


def test_a_lost_or_damaged_record_is_none(folder: Path) -> None:
    assert shadow.decision_on(folder, LIVE) is None
    (folder / "shadow" / f"{LIVE}.json").write_text(json.dumps({"version": LIVE}))
    assert shadow.decision_on(folder, LIVE) is None


def test_a_model_that_waits_is_neither_baseline_nor_base(folder: Path) -> None:
    models = [blessing(version, pushed=f"serving/{version}") for version in (LIVE, SHADOW)]
    places = {"serving/shadow": [SHADOW, f"{LIVE}.json"], "serving/withdrawn": []}
    assert [model.is_accepted for model in mark_places(models, lambda name: places[name])] == [True, False]
