"""Deltas as numbered folders: the chain of checksums, holds, and which may go."""

import datetime
import hashlib
from pathlib import Path

import pytest

from sangam.schemas.contracts import deltas
from sangam.schemas.errors import UserError
from tests.errors import place_and_value

LINEAGE = "20240301001"


def _base(versions: Path) -> bytes:
    (versions / LINEAGE).mkdir(parents=True)
    (versions / LINEAGE / "manifest.json").write_bytes(b"{}")
    return b"{}"


def _publish(versions: Path, number: int, rows: int = 1) -> deltas.Delta:
    path = deltas.begin(versions, LINEAGE, number)
    (path / deltas.rows_file("g", 0, "keys")).write_bytes(bytes(8 * rows))
    return deltas.publish(
        path,
        ranker="r",
        lineage=LINEAGE,
        number=number,
        segment=number,
        newest_event=None,
        examples=number,
        groups={"g": deltas.GroupChange(rows=rows, removed=0)},
        dense=False,
    )


def test_each_delta_names_the_one_before_and_the_first_names_its_version(tmp_path: Path) -> None:
    content = _base(tmp_path)
    for number in (1, 2, 3):
        delta = _publish(tmp_path, number)
        assert delta.previous == hashlib.sha256(content).hexdigest()
        content = (deltas.path_of(tmp_path, LINEAGE, number) / deltas.DELTA_FILE).read_bytes()
    assert deltas.published(tmp_path, LINEAGE) == [1, 2, 3]
    assert deltas.read(tmp_path, LINEAGE, 3).files["g.0.keys.npy"].bytes == 8


def test_deltas_go_once_two_full_versions_include_them(tmp_path: Path) -> None:
    _base(tmp_path)
    for number in range(1, 9):
        _publish(tmp_path, number)
    assert deltas.remove_included(tmp_path, LINEAGE, [0]) == []
    assert deltas.remove_included(tmp_path, LINEAGE, [0, 3]) == []
    assert deltas.remove_included(tmp_path, LINEAGE, [0, 3, 6]) == [1, 2, 3]
    assert deltas.published(tmp_path, LINEAGE) == [4, 5, 6, 7, 8]


def test_a_hold_is_written_and_released(tmp_path: Path) -> None:
    _base(tmp_path)
    _publish(tmp_path, 1)
    assert deltas.read_hold(tmp_path, LINEAGE) is None
    hold = deltas.Hold(number=1, because="b", by="me", at=datetime.datetime(2024, 3, 1, tzinfo=datetime.UTC))
    deltas.write_hold(tmp_path, LINEAGE, hold)
    assert deltas.read_hold(tmp_path, LINEAGE) == hold
    assert deltas.published(tmp_path, LINEAGE) == [1]
    deltas.release(tmp_path, LINEAGE)
    assert deltas.read_hold(tmp_path, LINEAGE) is None


def test_a_version_without_a_readable_manifest_starts_no_lineage(tmp_path: Path) -> None:
    version = tmp_path / "shadow" / LINEAGE
    version.mkdir(parents=True)
    assert deltas.lineage_of(version) is None
    for content in ("{", "[]", "[" * 100_000):
        (version / "manifest.json").write_text(content)
        with pytest.raises(UserError, match=place_and_value(str(version / "manifest.json"), "got")):
            deltas.sha256_at(tmp_path, LINEAGE, 0)
