"""When checkpoints are written, alone in this process, with a trainer that only counts."""

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sangam.schemas.host.backoff import Backoff
from sangam.trainer_module.monitoring.training import Metrics
from sangam.trainer_module.snapshot import Snapshot
from tests.errors import mentions
from tests.trainer_module.checkpoint.sample_checkpoints import GROUPS, contents

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")

ALONE = {name: np.zeros(500, np.int32) for name in GROUPS}


@dataclass
class CountingTrainer:
    step: int = 0
    next_pause: int = 0
    may_save: bool = True
    copies: list[int] = field(default_factory=list)
    progress: "CountingProgress | None" = None
    copied_with_heartbeat: list[bool] = field(default_factory=list)

    def save_rows(self, target: Path) -> None:
        """Nothing: no other process holds rows."""

    def cut(self) -> Snapshot:
        self.copies.append(self.step)
        if self.progress:
            self.copied_with_heartbeat.append(self.progress.is_beating)
        made = contents(ALONE, rank=0, ranks=1).snapshot
        return Snapshot(step=self.step, dense=made.dense, groups=made.groups, extra=made.extra)


class NoInput:
    def position(self, examples: int):  # type: ignore[no-untyped-def]
        from sangam.trainer_module.input.position import Position

        return Position(examples=examples)

    def trained(self) -> np.ndarray:
        return np.zeros([0, 2], np.int64)


@dataclass
class CountingProgress:
    examples: int = 0
    is_beating: bool = False
    said: list[str] = field(default_factory=list)
    metrics: Metrics = field(default_factory=Metrics)

    def say(self, sentence: str) -> None:
        self.said.append(sentence)

    @contextmanager
    def beating(self) -> Iterator[None]:
        self.is_beating = True
        yield
        self.is_beating = False


def _checkpointer(trainer: CountingTrainer, writer: Any, directory: Path) -> Any:
    from sangam.schemas.spec.training import Checkpoint
    from sangam.trainer_module import collectives
    from sangam.trainer_module.loop.checkpointing import Checkpointer
    from sangam.trainer_module.loop.history import History
    from sangam.trainer_module.loop.run import Run
    from tests.trainer_module.checkpoint.sample_checkpoints import manifest

    collectives.start()
    directory.mkdir(exist_ok=True)
    trainer.progress = CountingProgress()
    parts: Any = (None, trainer, NoInput(), History(), trainer.progress, manifest(ranks=1))
    run = Run(*parts, trainer_of=None, first_epoch=0)  # type: ignore[arg-type]
    return Checkpointer(run, Checkpoint(every_steps=10, keep=2), directory, writer)


def test_a_checkpoint_comes_every_so_many_steps_and_the_last_ones_stay(tmp_path: Path) -> None:
    from sangam.trainer_module.checkpoint.folder import published
    from sangam.trainer_module.checkpoint.writer import Writer

    trainer, writer = CountingTrainer(step=15), Writer(0)
    checkpointer = _checkpointer(trainer, writer, tmp_path / "c")
    while trainer.step < 55:
        trainer.step += 1
        checkpointer.after_step()
        writer.finish()
    assert trainer.copies == [20, 30, 40, 50]
    assert trainer.copied_with_heartbeat == [True] * 4
    assert [path.name[-2:] for path in published(tmp_path / "c")] == ["40", "50"]
    assert checkpointer.run.history.num_checkpoints == 4


class BusyWriter:
    """Writes for ever, or until it is told that the disk is done."""

    def __init__(self) -> None:
        self.is_writing = True
        self.started: list[Path] = []

    def check(self) -> None:
        pass

    def take_given_up(self) -> int:
        return 0

    def start(self, target: Path, *_: object, **__: object) -> None:
        self.started.append(target)


def test_while_the_last_one_is_being_written_no_copy_is_made_and_the_next_waits(tmp_path: Path) -> None:
    trainer, writer = CountingTrainer(), BusyWriter()
    checkpointer = _checkpointer(trainer, writer, tmp_path / "c")
    while trainer.step < 45:
        trainer.step += 1
        writer.is_writing = trainer.step < 23
        checkpointer.after_step()
    assert trainer.copies == [23, 30, 40]
    assert [path.name[-2:] for path in writer.started] == ["23", "30", "40"]


def test_while_a_disk_refuses_training_goes_on_and_no_third_copy_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sangam.trainer_module.checkpoint import writer as writing
    from sangam.trainer_module.checkpoint.folder import published

    healed, part = threading.Event(), writing._write_part

    def refusing(*arguments: Any) -> Any:
        if healed.is_set():
            return part(*arguments)
        raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr(writing, "_write_part", refusing)
    monkeypatch.setattr(writing, "_BACKOFF", Backoff(0.01))
    trainer, writer = CountingTrainer(), writing.Writer(0)
    checkpointer = _checkpointer(trainer, writer, tmp_path / "c")
    while trainer.step < 35:
        trainer.step += 1
        checkpointer.after_step()
    assert trainer.copies == [10]
    healed.set()
    writer.finish()
    trainer.step = 36
    checkpointer.after_step()
    writer.finish()
    assert trainer.copies == [10, 36]
    assert [path.name[-2:] for path in published(tmp_path / "c")] == ["10", "36"]


def test_a_checkpoint_that_was_given_up_is_counted_and_the_final_one_fails_the_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sangam.trainer_module.checkpoint import writer as writing

    trainer, writer = CountingTrainer(step=9), writing.Writer(0, deadline_s=0.1)
    checkpointer = _checkpointer(trainer, writer, tmp_path / "c")
    monkeypatch.setattr(writing, "_write_part", lambda *_: os.stat(tmp_path / "gone"))
    monkeypatch.setattr(writing, "_BACKOFF", Backoff(0.01))
    trainer.step = 10
    checkpointer.after_step()
    writer.finish()
    checkpointer.after_step()
    with pytest.raises(writing.NotWrittenError):
        checkpointer.write_final(tmp_path / "final")
    assert (checkpointer.run.history.num_checkpoints, checkpointer.run.history.num_given_up) == (0, 1)
    [said] = checkpointer.run.progress.said
    assert mentions(said, "checkpoint ... step 20")


def test_a_skipped_step_at_a_due_one_writes_no_second_checkpoint(tmp_path: Path) -> None:
    trainer, writer = CountingTrainer(step=9), BusyWriter()
    writer.is_writing = False
    checkpointer = _checkpointer(trainer, writer, tmp_path / "c")
    trainer.step = 10
    checkpointer.after_step()
    checkpointer.after_step()
    assert trainer.copies == [10]


def test_what_kept_the_disk_from_writing_is_told_where_training_would_go_on(tmp_path: Path) -> None:
    from sangam.trainer_module.checkpoint.writer import Writer

    trainer, writer = CountingTrainer(step=9), Writer(0)
    (tmp_path / "file").write_text("no folder")
    checkpointer = _checkpointer(trainer, writer, tmp_path / "c")
    checkpointer.directory = tmp_path / "file"
    trainer.step = 10
    checkpointer.after_step()
    with pytest.raises(OSError, match="Not a directory"):
        writer.finish()
