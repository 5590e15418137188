"""What an online training knows again after it has ended; one rank, in this process."""

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from sangam.components.registry import seal, shadow
from sangam.schemas.contracts import deltas
from sangam.schemas.contracts.calibration import Calibration
from sangam.schemas.contracts.training_job import TrainJob
from sangam.trainer_module.input.raw_examples import first_examples
from tests.trainer_module.online.streams import LINEAGE, online_job, served_dense, served_rows, started, write_segments
from tests.trainer_module.sample_job import FIRST_EVENT_S, declared, write_examples

pytestmark = pytest.mark.slow
pytest.importorskip("tensorflow")

_ROWS = 50
_GUARD = {"task": "like", "metric": "auc", "at_least": 0.9999, "minutes": 1000, "least_examples": _ROWS}


@pytest.fixture(scope="module", autouse=True)
def _one_rank() -> None:
    from sangam.trainer_module import collectives

    collectives.start()


def _save(learner: Any, checkpoints: Any, trainer: Any) -> Path:
    from sangam.trainer_module.checkpoint.folder import published

    learner.note()
    checkpoints.write(trainer, learner._history, segment=learner.segment)
    checkpoints.finish()
    return published(checkpoints._directory)[-1]


def test_skipped_segments_are_counted_and_never_trained_on_and_a_guard_still_holds(tmp_path: Path) -> None:
    made = online_job(tmp_path, declared(), base=None, lag={"skip_to_s": 3600}, guards=(_GUARD,))
    records = first_examples(write_examples(tmp_path / "data", num_files=1), 4 * _ROWS)
    assert write_segments(tmp_path / "examples", records, rows=_ROWS) == 4
    learner, checkpoints, trainer = started(made)
    turn = learner.next_turn()
    assert turn.segment == 3  # The newest event of the second is 6,000 s before that of the fourth.
    learner.train(turn.segment)
    learner.done(turn)
    saved = _save(learner, checkpoints, trainer)
    held = learner._judge.crossed()
    assert held.startswith("like: auc of the last 1000 minutes is less than 0.9999")

    again, checkpoints, trainer = started(made)
    document = again._document()
    assert (again.segment, document["examples"]) == (3, _ROWS)
    assert document["skipped"] == {"segments": 2, "rows": 2 * _ROWS}
    assert document["newest_event"] == FIRST_EVENT_S + 60 * (3 * _ROWS - 1)
    assert document["lag_s"] == 60 * _ROWS
    assert again._judge.crossed() == held
    turn = again.next_turn()
    assert (turn.segment, turn.publish, again._director.held) == (4, 0, held)

    manifest = saved / "manifest.json"
    written = manifest.stat().st_mtime_ns
    assert _save(again, checkpoints, trainer) == saved  # Nothing was learned: it is not written over.
    assert manifest.stat().st_mtime_ns == written


def test_a_change_of_the_first_segment_keeps_the_checkpoints(tmp_path: Path) -> None:
    made = online_job(tmp_path, declared(), base=None)
    records = first_examples(write_examples(tmp_path / "data", num_files=1), 2 * _ROWS)
    write_segments(tmp_path / "examples", records, rows=_ROWS)
    learner, checkpoints, trainer = started(made)
    learner.train(1)
    _save(learner, checkpoints, trainer)
    assert made.stream is not None
    later = made.model_copy(update={"stream": made.stream.model_copy(update={"first": 2})})
    again, _, _ = started(later)
    assert (again.segment, again.next_turn().segment) == (1, 2)


def test_the_calibration_of_the_base_stays_and_a_daily_training_does_not_inherit_it(tmp_path: Path) -> None:
    from sangam.trainer_module.checkpoint.manifest import read_manifest
    from sangam.trainer_module.loop.start import load_trainer
    from sangam.trainer_module.online.checkpointing import Checkpoints

    base = tmp_path / "base"
    fitted = {"like": Calibration(kind="platt", examples=9, positives=3, calibrated=(-0.5,), slope=0.75)}
    trainer, start, _ = load_trainer(online_job(tmp_path / "first", declared(), base=None), None, rank=0, ranks=1)
    manifest = start.manifest.model_copy(update={"calibrations": fitted})
    first = Checkpoints(tmp_path, manifest, rank=0, keep=2, written_step=None)
    first.write_to(base, trainer, start.history, segment=0)

    made = online_job(tmp_path, declared(), base=base)
    records = first_examples(write_examples(tmp_path / "data", num_files=1), _ROWS)
    write_segments(tmp_path / "examples", records, rows=_ROWS)
    learner, checkpoints, trainer = started(made)
    learner.train(1)
    saved = _save(learner, checkpoints, trainer)
    assert trainer.ranker.calibrations == read_manifest(saved).calibrations == fitted
    assert started(made)[2].ranker.calibrations == fitted

    daily = made.model_copy(update={"stream": None, "checkpoint_dir": str(tmp_path / "daily")})
    trainer, start, _ = load_trainer(daily, None, rank=0, ranks=1)
    assert (trainer.ranker.calibrations, start.manifest.calibrations, start.manifest.step) == ({}, {}, 0)


def _push(made: TrainJob, *below: str) -> Path:
    """Makes the folder of a job's version one that was pushed, with a model card; returns the folder of versions."""
    assert made.stream is not None
    versions = Path(made.stream.versions)
    (versions / LINEAGE / "manifest.json").unlink()
    (versions / LINEAGE / "saved_model.pb").write_text("model")
    (versions / LINEAGE / "MODEL_CARD.md").write_text("# Card\n")
    files = {name: entry.model_dump() for name, entry in seal.list_files(versions / LINEAGE).items()}
    (versions / LINEAGE / "manifest.json").write_text(json.dumps({"files": files}))
    (versions / Path(*below)).mkdir(exist_ok=True)
    (versions / LINEAGE).rename(versions / Path(*below) / LINEAGE)
    return versions


def test_a_version_that_learned_in_the_shadow_goes_on_as_the_live_one_with_the_bytes_of_one_that_was_live(
    tmp_path: Path,
) -> None:
    from sangam.trainer_module.online.turns import DENSE, Turn
    from tests.trainer_module.sample_job import read_dense, read_rows

    records = first_examples(write_examples(tmp_path / "data", num_files=1), 3 * _ROWS)
    ends = []
    for name in ("live", "promoted"):
        made = online_job(tmp_path / name, declared(), base=None)
        write_segments(tmp_path / name / "examples", records, rows=_ROWS)
        versions = _push(made, *(["shadow"] if name == "promoted" else []))
        learner, checkpoints, trainer = started(made)
        for segment in (1, 2):
            learner.train(segment)
            assert learner.publish(Turn(publish=DENSE))
        if name == "promoted":
            _save(learner, checkpoints, trainer)
            now = datetime.datetime(2024, 3, 1, tzinfo=datetime.UTC)
            decision = shadow.Decision(version=LINEAGE, live="1", verdict="promoted", because="better", at=now)
            shadow.promote(versions, decision)
            learner, checkpoints, trainer = started(made)
            assert (learner.segment, learner.publisher.number, learner.publisher.has_changes) == (2, 2, False)
            assert learner.next_turn().segment == 3
        learner.train(3)
        assert learner.publish(Turn(publish=DENSE))
        saved = _save(learner, checkpoints, trainer)
        place = deltas.lineage_of(versions / LINEAGE)
        assert place is not None
        assert deltas.read(versions, LINEAGE, 1).previous == place.sha256
        arrays = [array for group in ("adagrad_4", "adagrad_8") for array in read_rows(saved, group)]
        dense = sorted(read_dense(saved).items())
        served = sorted(served_rows(made, {}).items())
        ends.append(
            (
                saved.name,
                [array.tobytes() for array in [*arrays, *(array for _, array in dense), served_dense(made)]],
                [(key, row.tobytes()) for key, row in served],
            )
        )
    assert ends[0] == ends[1]
    assert ends[0][2]
