"""Full versions: what is pushed, what goes then, and what a hold keeps back."""

import datetime
from pathlib import Path

import pytest

from sangam.components.registry import versions
from sangam.components.steps.pusher import directory
from sangam.components.steps.pusher.manifest import Provenance
from sangam.pipelines.online.full_versions import FullVersions
from sangam.schemas.contracts import deltas
from sangam.schemas.contracts.training_job import Stream, TrainJob, write_job
from sangam.schemas.spec.online import Online
from tests.schemas.sample_specs import loaded

_NOW = datetime.datetime(2024, 3, 2, tzinfo=datetime.UTC)
LINEAGE = "20240301001"


@pytest.fixture
def job(tmp_path: Path) -> TrainJob:
    """A job whose base is pushed, with 20 deltas."""
    ranker, target = loaded(tmp_path).ranker(), tmp_path / "versions"
    provenance = Provenance(
        name=ranker.name,
        spec_digest="d",
        git_commit="c",
        days={},
        missing_days=[],
        metrics={},
        baseline=None,
        notes=["a note"],
    )
    model = tmp_path / "base"
    model.mkdir()
    (model / "saved_model.pb").write_text("base")
    pushed = directory.push(
        model=model, target=target, day="20240301", provenance=provenance, card=lambda _: "# Card\n", now=_NOW
    )
    assert pushed.version == LINEAGE
    for number in range(1, 21):
        deltas.publish(
            deltas.begin(target, LINEAGE, number),
            ranker=ranker.name,
            lineage=LINEAGE,
            number=number,
            segment=number,
            newest_event=None,
            examples=0,
            groups={},
            dense=False,
        )
    stream = Stream(segments="", first=1, versions=str(target), lineage=LINEAGE, settings=Online())
    return TrainJob(
        ranker=ranker,
        spec_digest="d",
        train_files=(),
        transform_graph="",
        model_dir="",
        output_dir=str(tmp_path / "output"),
        final_checkpoint="",
        checkpoint_dir="",
        log_dir="",
        stream=stream,
    )


def _exported(job: TrainJob, number: int) -> Path:
    """Leaves what an export leaves."""
    folder = job.full_version_folder(number)
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "saved_model.pb").write_text(f"with {number}")
    write_job(folder / "job.json", job.model_copy(update={"model_dir": str(folder / "model"), "stream": None}))
    return folder


def test_what_is_superseded_or_not_whole_goes_at_the_start(job: TrainJob) -> None:
    for number in (3, 6):
        _exported(job, number)
    job.full_version_folder(9).mkdir()
    FullVersions(job)
    assert [path.name for path in Path(job.output_dir).iterdir()] == ["full-00000006"]


def test_a_pushed_version_says_what_it_includes_and_what_nobody_needs_goes(job: TrainJob, tmp_path: Path) -> None:
    target, full = tmp_path / "versions", FullVersions(job)
    for number in (4, 8, 12):
        assert full._push(_exported(job, number)) == f"full version 2024030100{1 + number // 4} pushed"
    assert versions.versions(target) == [LINEAGE, "20240301003", "20240301004"]
    place = deltas.lineage_of(target / "20240301004")
    assert place == deltas.Lineage(lineage=LINEAGE, number=12, sha256=deltas.sha256_at(target, LINEAGE, 12))
    assert deltas.published(target, LINEAGE) == list(range(9, 21))
    assert [versions.damage(target / version) for version in versions.versions(target)] == [None] * 3
    assert "no gate has judged it" in (target / "20240301004" / "MODEL_CARD.md").read_text()


def test_full_versions_of_a_day_that_has_all_its_numbers_get_those_of_the_next(job: TrainJob, tmp_path: Path) -> None:
    target, full = tmp_path / "versions", FullVersions(job)
    assert full._push(_exported(job, 2)) == "full version 20240301002 pushed"
    (target / "20240301002").rename(target / "20240301998")
    pushed = [full._push(_exported(job, number)) for number in (4, 6, 8, 10)]
    assert pushed == [f"full version {each} pushed" for each in (20240301999, 20240302001, 20240302002, 20240302003)]
    assert versions.versions(target) == [LINEAGE, "20240302002", "20240302003"]
    assert deltas.published(target, LINEAGE) == list(range(9, 21))


def test_what_a_hold_excludes_is_not_pushed(job: TrainJob, tmp_path: Path) -> None:
    target, full = tmp_path / "versions", FullVersions(job)
    deltas.write_hold(target, LINEAGE, deltas.Hold(number=5, because="likes fell", by="me", at=_NOW))
    assert "held at delta 5: likes fell" in full._push(_exported(job, 6))
    assert versions.versions(target) == [LINEAGE]
    assert full._push(_exported(job, 5)) == "full version 20240301002 pushed"
