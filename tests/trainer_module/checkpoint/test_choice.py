"""Which checkpoint a training goes on from: the same one on all ranks, a damaged one passed over, loudly."""

import re
import threading
from pathlib import Path

import numpy as np
import pytest

from sangam.trainer_module.checkpoint import folder
from sangam.trainer_module.checkpoint.files import CheckpointError
from sangam.trainer_module.checkpoint.manifest import MANIFEST
from tests.errors import place_and_value, tells
from tests.trainer_module.checkpoint.sample_checkpoints import GROUPS, write_all
from tests.trainer_module.rank_processes import run_on_ranks

pytestmark = pytest.mark.processes
tf = pytest.importorskip("tensorflow")

ALONE = {name: np.zeros(500, np.int32) for name in GROUPS}
_PATIENCE_S = 0.5


def _choose(directory: Path, rank: int = 0) -> str:
    from sangam.trainer_module.checkpoint.choice import agreed_newest

    try:
        found = agreed_newest(directory, "job", rank=rank, patience_s=_PATIENCE_S)
    except CheckpointError as error:
        return str(error)
    return found.name if found else "none"


def _write(directory: Path, *steps: int) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for step in steps:
        write_all(folder.step_folder(directory, step), ALONE, ranks=1, step=step)
    return directory


def _choose_as_rank(rank: int, ranks: int, directory: Path) -> None:
    """Chooses in three worlds: ranks that see the same, another step, and other bytes under the same name."""
    from sangam.trainer_module.checkpoint.choice import agreed_base

    worlds = directory.parent / "worlds"
    said = [_choose(worlds / name / str(rank), rank) for name in ("same", "older", "empty")]
    try:
        agreed_base(worlds / "base" / str(rank) / "step-000000000007", patience_s=_PATIENCE_S)
        said.append("agreed")
    except CheckpointError as error:
        said.append(str(error))
    (directory / f"said-{rank}").write_text("\n".join(said))


def test_ranks_that_see_different_checkpoints_say_which_and_none_goes_on(tmp_path: Path) -> None:
    worlds = tmp_path / "worlds"
    for rank in range(2):
        _write(worlds / "same" / str(rank), 7, 9)
        _write(worlds / "older" / str(rank), 7, *([9] if rank == 0 else []))
        # Nothing on rank 0 would mean that days of work begin anew.
        _write(worlds / "empty" / str(rank), *([9] if rank == 1 else []))
        base = worlds / "base" / str(rank)
        base.mkdir(parents=True)
        write_all(folder.step_folder(base, 7), ALONE, ranks=1, step=7 + rank)
    run_on_ranks(_choose_as_rank, 2, tmp_path / "ranks")
    for rank in range(2):
        same, older, empty, base_said = (tmp_path / "ranks" / f"said-{rank}").read_text().splitlines()
        assert same == "step-000000000009"
        position = r'position=\{"epoch":1,"examples":96,"parts":8\} sha256=[0-9a-f]{64}'
        seven, nine = (f"step-00000000000{step} step={step} {position}" for step in (7, 9))
        differ = r": ranks see different checkpoints \(got rank 1: {}; rank 0: {}\); have all ranks see one folder"
        assert re.search(differ.format(seven, nine), older)
        assert re.search(differ.format(nine, "none"), empty)
        eight = f"step-000000000007 step=8 {position}"
        assert re.search(differ.format(eight, seven), base_said)


def test_a_listing_that_is_late_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sangam.trainer_module import collectives
    from sangam.trainer_module.checkpoint import choice

    directory = _write(tmp_path / "c", 7)
    first = choice._newest(_write(tmp_path / "first", 7, 9), "job", is_first=True).told
    monkeypatch.setattr(choice, "_POLL_S", 0.01)

    def texts(told: str, *, name: str) -> list[str]:
        if name == "checkpoint_seen":
            threading.Timer(0.2, _write, (directory, 9)).start()
        return [first, told]

    monkeypatch.setattr(collectives, "texts", texts)
    assert choice.agreed_newest(directory, "job", rank=1, patience_s=30) == folder.step_folder(directory, 9)


def test_a_checkpoint_whose_manifest_is_damaged_is_passed_over_and_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from sangam.trainer_module import collectives

    collectives.start()
    _write(tmp_path, 7, 9)
    (tmp_path / "step-000000000009" / MANIFEST).write_bytes(b"{}\n{}\n")
    assert _choose(tmp_path) == "step-000000000007"
    assert "event=checkpoint_passed_over" in caplog.text
    assert (tmp_path / "damaged-step-000000000009" / MANIFEST).read_bytes() == b"{}\n{}\n"


def test_without_a_whole_one_left_nothing_begins_anew_however_often_it_is_started(tmp_path: Path) -> None:
    from sangam.trainer_module import collectives

    collectives.start()
    _write(tmp_path, 7)
    (tmp_path / "step-000000000007" / MANIFEST).write_bytes(b"{}\n{}\n")
    for _ in range(2):
        folder.clear(tmp_path, "job")
        assert tells(_choose(tmp_path), str(tmp_path), "(got damaged-step-000000000007)")


def test_a_damaged_base_is_refused_and_stays_where_it_is(tmp_path: Path) -> None:
    from sangam.trainer_module import collectives
    from sangam.trainer_module.checkpoint.choice import agreed_base

    collectives.start()
    base = _write(tmp_path, 7, 9) / "step-000000000009"
    (base / MANIFEST).write_bytes(b"{}\n{}\n")
    with pytest.raises(CheckpointError, match=place_and_value("manifest.json", "(got 6 bytes")):
        agreed_base(base)
    assert (base / MANIFEST).exists()
