"""Runs that are killed or stopped while the ranks train: nothing stays behind, and the next run goes on from there."""

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.user_run import LEAN, STEPS, World, processes_naming, start, states, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.e2e]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, demo_spec_path: Path) -> World:
    made = World(tmp_path_factory.mktemp("interrupted"), demo_spec_path)
    made.generate()
    return made


def _train_for_long(world: World) -> Path:
    # That nothing of a pool is left is in `test_launcher`.
    return world.spec("long", {**LEAN, ("training", "epochs"): 10_000, ("cluster", "ranks"): 2})


def _start_and_wait_for_training(world: World, spec: Path) -> tuple[Any, Path]:
    known = world.runs()
    process = start(world.arguments(spec), world.directory / "output.txt")

    def training() -> list[Path]:
        assert process.poll() is None, (world.directory / "output.txt").read_text()
        return [run for run in world.runs() - known if (run / "logs" / "progress.jsonl").exists()]

    wait_until(lambda: bool(training()), "the ranks are training")
    return process, training()[0]


def test_a_stop_ends_every_process_and_says_so(world: World) -> None:
    """SIGINT ends a run in the same way, with another code: the next test has it."""
    process, run = _start_and_wait_for_training(world, _train_for_long(world))
    assert len(processes_naming(run)) >= 3
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 143
    wait_until(lambda: processes_naming(world.root) == [], "no process is left", 60)
    summary = json.loads((run / "summary.json").read_text())
    assert (summary["status"], summary["failed_step"]) == ("stopped", "trainer")
    assert summary["pushed"] is None


@pytest.mark.long
@pytest.mark.parametrize("moment", ["importing TensorFlow", "example_gen"])
def test_a_stop_before_or_in_the_first_step_is_obeyed_at_once_and_leaves_a_summary(world: World, moment: str) -> None:
    spec = world.spec("early", {**LEAN, ("name",): "early", ("push", "path"): "serving/early"})
    known, output = world.runs(), world.directory / f"early-{moment.split()[0]}.txt"
    process = start(world.arguments(spec), output, is_cold=True)

    def is_there() -> bool:
        assert process.poll() is None, output.read_text()
        logs = [run / "logs" / f"{moment}.log" for run in world.runs() - known]
        return moment in output.read_text() or any(log.exists() for log in logs)

    wait_until(is_there, f"the run is at: {moment}")
    asked = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    # Promised are 2 s; the tests' machine may be busy. An import alone takes longer than this.
    assert time.monotonic() - asked < 6
    [run] = world.runs() - known
    summary = json.loads((run / "summary.json").read_text())
    assert (summary["status"], summary["error"], summary["blessed"]) == ("stopped", "stopped by SIGINT", None)
    assert f"summary: {run / 'summary.json'}" in output.read_text()
    assert "Traceback" not in output.read_text()
    wait_until(lambda: processes_naming(world.root) == [], "no process is left", 60)


# One that runs in the run's process, one that starts a training, one that starts a server.
LONG_STEPS = ["transform", "trainer", "infra_validator"]


def _outputs(world: World, step: str) -> set[Path]:
    return set((world.root / "artifacts" / step).glob("[a-z]*/*"))


@pytest.mark.long
def test_after_kill_9_in_three_steps_in_turn_the_next_run_goes_on_from_there(world: World) -> None:
    spec = world.spec("killed", {("name",): "killed", ("push", "path"): "serving/killed", **LEAN})
    half_written: set[Path] = set()
    finished: set[str] = set()
    for step in LONG_STEPS:
        outputs = _outputs(world, step)
        known = world.runs()
        process = start(world.arguments(spec), world.directory / f"killed-in-{step}.txt")
        log = f"logs/{step}.log"

        def in_step(known: set[Path] = known, log: str = log, step: str = step, before: set[Path] = outputs) -> bool:
            # A step's log is there before its folders are.
            return any((run / log).exists() for run in world.runs() - known) and bool(_outputs(world, step) - before)

        wait_until(in_step, f"a run is in {step}")
        process.kill()
        process.wait(60)
        wait_until(lambda: processes_naming(world.root) == [], "no process is left", 30)
        [run] = world.runs() - known
        assert not (run / "summary.json").exists()
        output = (world.directory / f"killed-in-{step}.txt").read_text()
        assert {line.split()[0] for line in output.splitlines() if line.endswith("cached")} == finished
        finished = set(STEPS[: STEPS.index(step)])
        half_written |= _outputs(world, step) - outputs

    done, summary = world.run(spec)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(half_written) >= len(LONG_STEPS)
    assert not any(path.exists() for path in half_written)
    assert {name for name, state in states(summary).items() if state == "ran"} == {"infra_validator", "pusher"}
    assert {split: rows["written"] for split, rows in summary["rows"].items()} == {"train": 12000, "eval": 3000}
    versions = [path.name for path in Path(summary["pushed"]["path"]).parent.iterdir() if not path.name.startswith(".")]
    assert versions == ["20260305001"]
