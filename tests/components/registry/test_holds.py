"""Going back to a delta: what is held, what is withdrawn, and what is refused without a trace."""

import datetime
import shutil
from pathlib import Path

import pytest

from sangam.components.registry import holds, seal, versions
from sangam.pipelines.commands.rollback import newest_told
from sangam.schemas.contracts import deltas
from sangam.schemas.errors import UserError
from tests.errors import place_and_value

LINEAGE = "20240301001"
_NOW = datetime.datetime(2024, 3, 2, tzinfo=datetime.UTC)


def _version(folder: Path, version: str, number: int, lineage: str = LINEAGE) -> None:
    path = folder / version
    path.mkdir(parents=True)
    (path / "saved_model.pb").write_text(version)
    if number:
        (path / "assets.extra").mkdir()
        deltas.write_lineage(path, folder, lineage, number)
    seal.seal(str(path))


def _publish(folder: Path, number: int) -> None:
    deltas.publish(
        deltas.begin(folder, LINEAGE, number),
        ranker="r",
        lineage=LINEAGE,
        number=number,
        segment=number,
        newest_event=None,
        examples=0,
        groups={},
        dense=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A version, its deltas 1 to 8, and full versions at 3 and 6."""
    made = tmp_path / "versions"
    _version(made, LINEAGE, 0)
    for number in range(1, 9):
        _publish(made, number)
        if number in (3, 6):
            _version(made, f"2024030100{1 + number // 3}", number)
    return made


def _hold(folder: Path, to: str) -> list[str]:
    return holds.hold(folder, to=to, because="likes fell", by="me", now=_NOW)


@pytest.mark.parametrize(
    ("number", "withdrawn"), [(8, []), (6, []), (5, ["20240301003"]), (2, ["20240301002", "20240301003"])]
)
def test_versions_with_later_deltas_are_withdrawn(folder: Path, number: int, withdrawn: list[str]) -> None:
    assert _hold(folder, f"{LINEAGE}+{number}") == withdrawn
    hold = deltas.read_hold(folder, LINEAGE)
    assert hold is not None
    assert (hold.number, hold.because) == (number, "likes fell")
    assert sorted(versions.withdrawn(folder)) == withdrawn
    assert holds.release(folder, LINEAGE) == hold


@pytest.mark.parametrize(
    ("gone", "to", "told"),
    [
        ((), LINEAGE, "servers apply all deltas up to 8"),
        ((1, 2, 3), LINEAGE, "the deltas after it are gone up to 3"),
        ((1, 2, 3), "20240301002", "servers apply all deltas up to 8"),
        ((6,), "20240301002", "servers apply all deltas up to 5"),
    ],
)
def test_a_rollback_to_a_version_promises_the_deltas_that_are_there(
    folder: Path, gone: tuple[int, ...], to: str, told: str
) -> None:
    for number in gone:
        shutil.rmtree(deltas.path_of(folder, LINEAGE, number))
    versions.withdraw(folder, because="likes fell", now=_NOW, to=to)
    assert told in newest_told(folder)


def test_a_delta_that_no_version_leads_to_any_more_is_refused(folder: Path) -> None:
    deltas.remove_included(folder, LINEAGE, [0, 3, 6])
    with pytest.raises(UserError, match=place_and_value("--to", f"got {LINEAGE}+2")):
        _hold(folder, f"{LINEAGE}+2")
    assert deltas.read_hold(folder, LINEAGE) is None
    assert _hold(folder, f"{LINEAGE}+4") == ["20240301003"]


def test_where_the_version_to_fall_back_to_is_damaged_nothing_is_held(folder: Path) -> None:
    (folder / "20240301002" / "saved_model.pb").write_text("other")
    with pytest.raises(UserError, match="20240301002 to fall back to is damaged"):
        _hold(folder, f"{LINEAGE}+4")
    assert deltas.read_hold(folder, LINEAGE) is None
    assert versions.withdrawn(folder) == {}


def test_a_newer_daily_version_must_be_withdrawn_first(folder: Path) -> None:
    _version(folder, "20240302001", 0)
    with pytest.raises(UserError, match=place_and_value("--to", f"got {LINEAGE}+2")):
        _hold(folder, f"{LINEAGE}+2")


def test_a_release_of_what_is_not_held_tells_what_is(folder: Path) -> None:
    _hold(folder, f"{LINEAGE}+8")
    with pytest.raises(UserError, match=place_and_value("--release", f"got 1); held are: {LINEAGE}")):
        holds.release(folder, "1")
