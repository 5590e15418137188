"""Runs that are killed or stopped while the ranks train: nothing stays behind, and the next run goes on from there."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.world import World, processes_naming, start, states, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.e2e]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, demo_spec_path: Path) -> World:
    made = World(tmp_path_factory.mktemp("interrupted"), demo_spec_path)
    made.generate()
    return made


def _train_for_long(world: World) -> Path:
    return world.spec("long", {("training", "epochs"): 10_000})


def _start_and_wait_for_training(world: World, spec: Path) -> tuple[Any, Path]:
    known = set((world.root / "runs").glob("*")) if world.root.exists() else set()
    process = start(world.arguments(spec), world.directory / "output.txt")

    def training() -> list[Path]:
        assert process.poll() is None, (world.directory / "output.txt").read_text()
        new = set((world.root / "runs").glob("*")) - known
        return [run for run in new if (run / "logs" / "progress.jsonl").exists()]

    wait_until(lambda: bool(training()), "the ranks are training")
    return process, training()[0]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stop_ends_every_process_and_says_so(world: World, number: signal.Signals, code: int) -> None:
    process, run = _start_and_wait_for_training(world, _train_for_long(world))
    assert len(processes_naming(run)) >= 3
    process.send_signal(number)
    assert process.wait(60) == code
    wait_until(lambda: processes_naming(world.root) == [], "no process is left", 10)
    summary = json.loads((run / "summary.json").read_text())
    assert (summary["status"], summary["failed_step"]) == ("stopped", "trainer")
    assert summary["pushed"] is None


def test_after_kill_9_in_training_the_next_run_goes_on_behind_transform(world: World) -> None:
    process, run = _start_and_wait_for_training(world, _train_for_long(world))
    process.kill()
    process.wait(10)
    wait_until(lambda: processes_naming(world.root) == [], "no process is left", 30)
    half_written = list((world.root / "artifacts" / "trainer" / "model").iterdir())
    assert half_written

    done, summary = world.run(world.spec("short", {}))
    assert done.returncode == 0, done.stdout + done.stderr
    ran = {name for name, state in states(summary).items() if state == "ran"}
    assert ran == {"trainer", "evaluator", "pusher"}
    assert not any(path.exists() for path in half_written)
    assert not (run / "summary.json").exists()
    assert world.versions() == ["20260305001"]
