"""What is known of a run under way: pure functions, and files as a run leaves them."""

import json
import math
import os
from pathlib import Path

import pytest

from sangam.components.record.lock import locked
from sangam.components.record.run import Step
from sangam.components.record.store import find_run
from sangam.pipelines.local.training_progress import TrainingProgress
from sangam.pipelines.ui.live import Live, document, left_s, point, read_live, read_points, seconds_before, thinned
from tests.pipelines.ui.sample_root import NEW, progress_line, run_id, write_running, write_runs

RUNNING = "20240310T020000-1a2b3c4d"
STEPS = [Step("a", "ran", 10.0), Step("b", "running", started_at=100.0), Step("c", "waiting"), Step("d", "waiting")]
BEFORE = {"b": 50.0, "c": 7.0, "d": 3.0}


@pytest.mark.parametrize(
    ("before", "now", "training_s", "left"),
    [
        (BEFORE, 120.0, None, 40.0),
        (BEFORE, 190.0, None, 10.0),  # Longer than usual: it may end at once.
        (BEFORE, 120.0, 25.0, 35.0),
        ({"b": 50.0, "c": 7.0}, 120.0, None, math.nan),
        ({"c": 7.0, "d": 3.0}, 120.0, None, math.nan),
        ({"c": 7.0, "d": 3.0}, 120.0, 25.0, 35.0),
    ],
)
def test_what_is_left_is_what_steps_usually_take_and_the_rate_of_a_training(
    before: dict[str, float], now: float, training_s: float | None, left: float
) -> None:
    assert left_s(STEPS, before, now, training_s) == pytest.approx(left, nan_ok=True)


def test_nothing_is_known_to_be_left_before_the_steps_are() -> None:
    assert math.isnan(left_s([], BEFORE, 0.0, None))


def numbers(examples: int, expected: int = 1000, rate: float = 10.0) -> TrainingProgress:
    return TrainingProgress(step=examples, loss=1.0, examples=examples, examples_per_s=rate, expected=expected)


def test_a_training_has_a_share_and_a_time_left_where_its_end_is_known() -> None:
    assert (numbers(250).share, numbers(250).left_s) == (0.25, 75.0)
    assert (numbers(1200).share, numbers(1200).left_s) == (1.0, 0.0)
    assert (numbers(250, expected=0).share, numbers(250, expected=0).left_s) == (None, None)
    assert numbers(250, rate=0.0).left_s is None


def live(**changes: object) -> Live:
    fields = {"state": "running", "elapsed_s": 125.0, "now": 120.0, "steps": STEPS, "points": [numbers(250)]}
    fields["is_training"] = True
    return Live(**{**fields, "before": BEFORE, **changes})  # type: ignore[arg-type]


def test_the_page_gets_words() -> None:
    told = document(live(memory_bytes=2_000_000_000))
    assert told["sentence"] == "b is running; 1 of 4 steps are done."
    assert told["share"] == 0.25
    assert told["shown"] == {
        "elapsed": "2 min 05 s",
        "left": "1 min 25 s",
        "left_of": "of the run",
        "rate": "10",
        "memory": "2.00 GB",
        "percent": "25 %",
        "step": "step 250",
        "says": "",
    }
    assert [step["time"] for step in told["steps"]] == ["10 s", "20 s", "", ""]
    json.dumps(told, allow_nan=False)


def test_where_steps_have_no_past_the_time_left_is_that_of_the_training() -> None:
    shown = document(live(before={}))["shown"]
    assert (shown["left"], shown["left_of"]) == ("1 min 15 s", "of the training")
    shown = document(live(before={}, points=[]))["shown"]
    assert (shown["left"], shown["left_of"], shown["percent"]) == ("–", "not known yet", "–")


def test_numbers_of_a_training_that_has_ended_are_not_those_of_the_step_under_way() -> None:
    told = document(live(is_training=False))
    assert (told["shown"]["percent"], told["shown"]["rate"], told["share"]) == ("done", "–", 1.0)


def test_a_training_that_is_silent_says_so() -> None:
    told = document(live(silent_s=17.0))
    assert (told["shown"]["says"], told["shown"]["rate"]) == ("no step for 17 s", "–")


def test_a_sentence_after_the_numbers_says_that_they_hold_no_longer() -> None:
    shown = document(live(says="exporting the model", before={}))["shown"]
    assert (shown["says"], shown["rate"], shown["left"]) == ("exporting the model", "–", "–")
    assert document(live(says="exporting the model"))["shown"]["left"] == "40 s"  # As long as it usually takes.


def test_of_a_killed_run_nothing_runs() -> None:
    told = document(live(state="killed"))
    assert told["sentence"] == "The run is killed."
    assert told["steps"][1]["state"] == "stopped"


def test_losses_that_are_not_finite_are_no_point() -> None:
    found = TrainingProgress(1, math.nan, 1, 1.0, losses={"like": math.nan, "share": 0.5})
    assert point(found)["losses"] == {"share": 0.5}


def test_a_long_training_has_few_points_and_the_newest() -> None:
    steps = [each.step for each in thinned([numbers(step) for step in range(1000)], most=10)]
    assert len(steps) <= 10
    assert steps[-1] == 999


def test_a_run_under_way_is_read_with_its_memory(tmp_path: Path) -> None:
    root = write_runs(tmp_path)
    with locked(root.path):
        write_running(root, RUNNING, now=1000.0, num_points=10)
        for file in (root.run(RUNNING).logs / "progress.jsonl", root.run(RUNNING).steps):
            os.utime(file, (1000.0, 1000.0))
        run = find_run(root.run(RUNNING).path)
        found = read_live(run, seconds_before([find_run(root.run(run_id(NEW)).path)]), now=1001.0)
        assert found.memory_bytes
        assert found.memory_bytes > 10**6
    told = document(found)
    assert (run.date, run.state) == ("2024-03-09", "running")
    # Of the cached step there is no usual time.
    assert [(step["name"], step["usual"]) for step in told["steps"][:2]] == [
        ("example_gen", ""),
        ("statistics_gen", "24 s"),
    ]
    assert told["shown"]["percent"] == "10 %"
    assert [each["step"] for each in told["points"]] == [20 * number for number in range(1, 11)]


def test_numbers_belong_to_the_running_step_if_its_journal_is_not_newer(tmp_path: Path) -> None:
    root = write_runs(tmp_path)
    write_running(root, RUNNING, now=1000.0, num_points=10)
    numbers, journal, run = root.run(RUNNING).logs / "progress.jsonl", root.run(RUNNING).steps, root.run(RUNNING).path
    for written_at, is_training in ((999.0, False), (1000.0, True)):
        os.utime(numbers, (written_at, written_at))
        os.utime(journal, (1000.0, 1000.0))
        assert read_live(find_run(run), {}, now=1000.0).is_training == is_training


@pytest.mark.parametrize("ahead_s", [-3600.0, 0.0, 3600.0])
def test_a_file_system_with_another_clock_silences_no_training(tmp_path: Path, ahead_s: float) -> None:
    root = write_runs(tmp_path)
    write_running(root, RUNNING, now=1000.0, num_points=10)  # The step began at 980.
    os.utime(root.run(RUNNING).steps, (980.0 + ahead_s, 980.0 + ahead_s))
    os.utime(root.run(RUNNING).logs / "progress.jsonl", (995.0 + ahead_s, 995.0 + ahead_s))
    found = read_live(find_run(root.run(RUNNING).path), {}, now=1000.0)
    assert (found.silent_s, found.is_training) == (5.0, True)


def test_points_are_read_from_the_end_of_a_long_file(tmp_path: Path) -> None:
    root = write_runs(tmp_path)
    folder = write_running(root, RUNNING, now=1000.0, num_points=500)
    run = find_run(folder)
    assert len(read_points(run)) == 500
    newest = read_points(run, newest_bytes=1000)
    assert 0 < len(newest) < 10
    assert newest[-1].step == progress_line(500)["step"]
