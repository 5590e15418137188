"""What a run shows while it goes on."""

import io
import os
import time
from pathlib import Path

import pytest
from rich.console import Console

from sangam.components.record.run import Step
from sangam.pipelines.local import full_disk, progress
from sangam.pipelines.local.progress import TerminalProgress
from sangam.pipelines.local.training_progress import TrainingProgress, read_progress
from sangam.trainer_module.progress import say
from tests.errors import mentions

LINE = '{"step": 20, "examples": 10240, "loss": 0.5, "examples_per_s": 1234.5}\n'


def _wait_for(text: str, shown: io.StringIO) -> None:
    """Waits until a text is shown; lines without an event come every 30 s."""
    deadline = time.monotonic() + 60
    while text not in shown.getvalue():
        assert time.monotonic() < deadline, shown.getvalue()[-2000:]
        time.sleep(0.01)


def test_the_last_whole_line_is_the_progress(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    path.write_text(LINE.replace("20", "10") + LINE + '{"step": 30, "exam')
    found = read_progress(path)
    assert isinstance(found, TrainingProgress)
    assert (found.step, found.examples, found.loss, found.examples_per_s) == (20, 10240, 0.5, 1234.5)
    assert str(found) == "step 20 loss 0.5000 1,234 examples/s"


KNOWN = LINE.replace("}", ', "expected": 20480, "losses": {"like": 0.2, "share": 0.3}}')


def test_where_its_end_is_known_a_training_says_how_far_it_is_and_how_long_it_takes(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    path.write_text(KNOWN)
    found = read_progress(path)
    assert isinstance(found, TrainingProgress)
    assert (found.losses, found.share) == ({"like": 0.2, "share": 0.3}, 0.5)
    assert str(found) == " 50 %  1,234 examples/s  8 s left  step 20 loss 0.5000"


@pytest.mark.parametrize(
    ("share", "drawn"), [(-1.0, "━━━━"), (0.0, "━━━━"), (0.4, "━╸━━"), (0.5, "━━━━"), (1.0, "━━━━"), (2.0, "━━━━")]
)
def test_a_bar_is_filled_in_halves_of_a_character(share: float, drawn: str) -> None:
    found = progress.bar(share, width=4)
    assert found.plain == drawn
    filled = sum(span.end - span.start for span in found.spans if span.style == "bar.complete")
    assert filled == {-1.0: 0, 0.0: 0, 0.4: 2, 0.5: 2, 1.0: 4, 2.0: 4}[share]


def test_there_is_no_progress_without_a_file_or_a_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    assert read_progress(path) is None
    path.write_text("not json\n{}\n")
    assert read_progress(path) is None


def test_a_long_file_is_read_from_its_end(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    path.write_text(LINE * 10_000 + LINE.replace("20", "21"))
    found = read_progress(path)
    assert isinstance(found, TrainingProgress)
    assert found.step == 21


LOST = "rank 1 lost (signal 9) at step 2,763; restarting from step 2,600 (attempt 2 of 3)"


def test_a_lost_rank_is_told_at_once_and_the_numbers_before_it_are_not_repeated(tmp_path: Path) -> None:
    shown, path = io.StringIO(), tmp_path / "progress.jsonl"
    observer = TerminalProgress(Console(file=shown, width=200), tmp_path)
    observer.step_started("trainer")
    path.write_text(LINE)
    say(path, LOST, retry=1)
    _wait_for(LOST, shown)
    time.sleep(1.2)
    observer.step_ended(Step("trainer", "ran", 1.0, 0))
    assert shown.getvalue().count(LOST) == 1
    assert "step 20 loss" not in shown.getvalue()
    with path.open("a") as file:
        file.write(LINE.replace("20", "21"))
    assert str(read_progress(path)).startswith("step 21 loss")


def test_numbers_that_are_old_are_not_shown_as_if_they_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_PLAIN_LINE_EVERY_S", 0.01)
    monkeypatch.setattr(progress, "_STALE_S", 0.5)
    shown, path = io.StringIO(), tmp_path / "progress.jsonl"
    observer = TerminalProgress(Console(file=shown, width=200), tmp_path)
    observer.step_started("trainer")
    path.write_text(LINE)
    _wait_for("no step for", shown)
    observer.step_ended(Step("trainer", "ran", 1.0, 0))
    assert mentions(shown.getvalue().splitlines()[-2], "running ... step 20, no step for")
    assert "examples/s" not in shown.getvalue().splitlines()[-2]


@pytest.mark.parametrize("ahead_s", [-86_400, 86_400])
def test_numbers_are_shown_whatever_the_clock_of_the_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead_s: int
) -> None:
    monkeypatch.setattr(progress, "_PLAIN_LINE_EVERY_S", 0.01)
    shown, path = io.StringIO(), tmp_path / "progress.jsonl"
    observer = TerminalProgress(Console(file=shown, width=200), tmp_path)
    observer.step_started("trainer")
    path.write_text(LINE)
    os.utime(path, (time.time() + ahead_s, time.time() + ahead_s))
    _wait_for("1,234 examples/s", shown)
    observer.step_ended(Step("trainer", "ran", 1.0, 0))
    assert "1,234 examples/s" in shown.getvalue()
    assert "no step for" not in shown.getvalue()


def test_off_a_terminal_every_step_is_one_plain_line(tmp_path: Path) -> None:
    shown = io.StringIO()
    observer = TerminalProgress(Console(file=shown), tmp_path)
    for state in ("ran", "cached"):
        observer.step_started("transform")
        observer.step_ended(Step("transform", state, 12.34, 3 * 2**20))
    assert shown.getvalue() == (
        "transform                 12 s  3.15 MB  done\ntransform                 12 s  3.15 MB  cached\n"
    )


def test_off_a_terminal_a_long_step_says_now_and_then_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_PLAIN_LINE_EVERY_S", 0.01)
    shown = io.StringIO()
    observer = TerminalProgress(Console(file=shown), tmp_path)
    observer.step_started("trainer")
    (tmp_path / "progress.jsonl").write_text(LINE)
    _wait_for("running  step 20 loss 0.5000", shown)
    observer.step_ended(Step("trainer", "ran", 1.0, 0))
    assert "\x1b" not in shown.getvalue()


def test_a_step_does_not_show_the_progress_of_one_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_PLAIN_LINE_EVERY_S", 0.01)
    (tmp_path / "progress.jsonl").write_text(LINE)
    shown = io.StringIO()
    observer = TerminalProgress(Console(file=shown), tmp_path)
    observer.step_started("evaluator")
    _wait_for("evaluator", shown)
    observer.step_ended(Step("evaluator", "ran", 1.0, 0))
    assert "step 20" not in shown.getvalue()


def test_on_a_terminal_the_running_step_is_shown_and_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_REFRESH_S", 0.01)
    shown = io.StringIO()
    observer = TerminalProgress(Console(file=shown, force_terminal=True, width=100), tmp_path)
    observer.step_started("trainer")
    _wait_for("trainer", shown)
    observer.step_ended(Step("trainer", "failed", 1.0, 0))
    assert "failed" in shown.getvalue().splitlines()[-1]


def test_on_a_terminal_a_training_has_a_bar_and_the_time_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_REFRESH_S", 0.01)
    shown = io.StringIO()
    observer = TerminalProgress(Console(file=shown, force_terminal=True, width=100, color_system=None), tmp_path)
    observer.step_started("trainer")
    (tmp_path / "progress.jsonl").write_text(KNOWN)
    _wait_for("8 s left", shown)
    observer.step_ended(Step("trainer", "ran", 1.0, 0))
    assert "━━━━━━━━━━━━━━━━━━━━   50 %  1,234 examples/s  8 s left  step 20" in shown.getvalue()


def test_a_step_that_waits_for_logs_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_PLAIN_LINE_EVERY_S", 0.01)
    (tmp_path / "waiting.txt").write_text("waits for the logs of 2024-03-07: 4 min 00 s of 2 h 00 min")
    shown = io.StringIO()
    observer = TerminalProgress(Console(file=shown, width=200), tmp_path)
    observer.step_started("example_gen")
    _wait_for("waits for", shown)
    observer.step_ended(Step("example_gen", "ran", 1.0, 0))
    assert mentions(shown.getvalue(), "running ... 2024-03-07: 4 min 00 s of 2 h 00 min")


def test_a_full_disk_is_told_while_the_step_still_waits_for_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(full_disk, "_FULL_BELOW_BYTES", 2**62)
    shown = io.StringIO()
    observer = TerminalProgress(Console(file=shown, width=200), tmp_path)
    observer.step_started("trainer")
    _wait_for("full", shown)
    observer.step_ended(Step("trainer", "ran", 1.0, 0))
    assert (
        len([line for line in shown.getvalue().splitlines() if mentions(line, f"running ... full ... {tmp_path}")]) == 1
    )


def test_a_line_that_the_disk_does_not_take_ends_nothing() -> None:
    full = Path("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        full.write_text("a line")
    assert say(full, "exporting the model") is None
