"""The layout of a root: a change of it is a change of what users and older runs have on their disks."""

from pathlib import Path

from sangam.schemas.contracts.root import NAMES, Root, RunFolder


def test_everything_lies_where_it_always_has() -> None:
    root = Root("/srv")
    assert {
        str(path.relative_to("/srv"))
        for path in (root.artifacts, root.metadata, root.runs, root.checkpoints("a"), root.training("a", "1"))
    } == {"artifacts", "metadata.sqlite", "runs", "checkpoints/a", "training/a/1"}
    assert {
        str(path.relative_to("/srv"))
        for path in (root.digests, root.backfill("a"), root.schedule("a"), root.tune("a"), Path(root.blessed("a")))
    } == {"ingestion/digests.json", "backfill/a", "schedule/a", "tune/a", "blessed/a"}
    assert (root.metrics, root.online("a")) == (Path("/srv/metrics"), Path("/srv/online/a"))
    run = RunFolder(root.runs / "r")
    assert (run.summary, run.logs) == (Path("/srv/runs/r/summary.json"), Path("/srv/runs/r/logs"))


def test_blessings_lie_in_a_store_too() -> None:
    assert Root("s3://bucket/srv/").blessed("a") == "s3://bucket/srv/blessed/a"


def test_no_model_is_pushed_over_what_a_root_keeps() -> None:
    root = Root("/srv")
    places = (
        root.artifacts,
        root.metadata,
        root.runs,
        root.digests,
        root.tune("a"),
        root.metrics,
        Path(root.blessed("a")),
    )
    assert {path.relative_to("/srv").parts[0] for path in places} < NAMES


def test_a_folder_is_a_run_of_the_root_that_has_its_metadata(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "runs" / "r")
    assert run.root is None
    Root(str(tmp_path)).metadata.touch()
    assert run.root == Root(str(tmp_path))
    assert RunFolder(tmp_path / "other" / "r").root is None
