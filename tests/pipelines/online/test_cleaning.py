"""What online training leaves behind, and when it goes."""

import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sangam.components.registry import shadow, versions
from sangam.pipelines.online.cleaning import remove_old_lineages, remove_old_segments
from sangam.schemas.contracts import deltas, segments
from sangam.schemas.spec.online import Online
from sangam.trainer_module.checkpoint import folder as checkpoints
from sangam.trainer_module.checkpoint.manifest import Manifest
from sangam.trainer_module.input.position import Position


def _version(target: Path, version: str, lineage: str, number: int) -> None:
    folder = target / version
    folder.mkdir(parents=True)
    for name in ("saved_model.pb", "manifest.json"):
        (folder / name).write_text("{}")
    if number:
        (folder / "assets.extra").mkdir()
        place = deltas.Lineage(lineage=lineage, number=number, sha256="")
        (folder / deltas.LINEAGE_FILE).write_text(place.model_dump_json())


def test_the_lineage_in_training_and_the_one_before_stay_and_no_version_of_a_daily_run_goes(tmp_path: Path) -> None:
    training, target = tmp_path / "training", tmp_path / "versions"
    lineages = ["20240301001", "20240302001", "20240303001"]
    for lineage in lineages:
        (training / lineage / "checkpoints").mkdir(parents=True)
        (target / "deltas" / lineage / "00000001").mkdir(parents=True)
        _version(target, lineage, lineage, 0)
        _version(target, f"{lineage[:8]}002", lineage, 6)
    assert remove_old_lineages(training, target, lineages[2]) == [lineages[0]]
    assert remove_old_lineages(training, target, lineages[2]) == []
    for left in (training, target / "deltas"):
        assert sorted(path.name for path in left.iterdir()) == lineages[1:]
    kept = sorted(path.name for path in target.iterdir() if path.name != "deltas")
    assert kept == ["20240301001", "20240302001", "20240302002", "20240303001", "20240303002"]


def test_the_lineage_in_the_shadow_stays_and_goes_once_it_is_dropped(tmp_path: Path) -> None:
    training, target = tmp_path / "training", tmp_path / "versions"
    before, live, waiting = lineages = ["20240301001", "20240302001", "20240303001"]
    for lineage in lineages:
        (training / lineage / "checkpoints").mkdir(parents=True)
        (target / "deltas" / lineage / "00000001").mkdir(parents=True)
        _version(target / "shadow" if lineage == waiting else target, lineage, lineage, 0)
    assert remove_old_lineages(training, target, live) == []
    now = datetime.datetime(2024, 3, 4, tzinfo=datetime.UTC)
    shadow.drop(target, shadow.Decision(version=waiting, live=live, verdict="dropped", because="worse", at=now))
    assert remove_old_lineages(training, target, live) == [waiting]
    assert sorted(path.name for path in training.iterdir()) == [before, live]
    versions.restore(target, waiting)  # It is live, and its training begins again.
    (training / waiting).mkdir()
    assert remove_old_lineages(training, target, waiting) == [before]


def _learned(job: Any, segment: int) -> None:
    """Leaves a checkpoint of the state after a segment."""
    fields: dict[str, Any] = dict(ranks=1, spec_digest="", job_digest="", seed=1, days=(), groups={}, weights=())
    target = checkpoints.step_folder(Path(job.checkpoint_dir), segment)
    target.mkdir(parents=True)
    checkpoints.publish(target, Manifest(step=segment, position=Position(epoch=segment), **fields))


def test_a_segment_goes_once_all_trainings_have_learned_from_it(tmp_path: Path) -> None:
    folder, times = tmp_path / "examples", {"first_event": None, "last_event": None}
    for number in range(1, 7):
        segments.begin(folder, number)
        segments.seal(folder, number, rows=0, positions={}, counts={}, **times)
    stream = SimpleNamespace(segments=str(folder), settings=Online())
    live, waiting = jobs = [
        SimpleNamespace(stream=stream, checkpoint_dir=str(tmp_path / name)) for name in ("live", "waiting")
    ]
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=3)

    def removed(*of: Any) -> list[int]:
        return remove_old_segments(of, later)

    _learned(live, 5)
    assert removed(*jobs) == []  # The other one has not begun.
    _learned(waiting, 3)
    _learned(waiting, 4)
    assert removed(*jobs) == [1, 2]
    assert removed(live) == [3, 4]
