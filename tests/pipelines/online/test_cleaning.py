"""What online training leaves behind, and when it goes."""

from pathlib import Path

from sangam.pipelines.online.cleaning import remove_old_lineages
from sangam.schemas.contracts import deltas


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
