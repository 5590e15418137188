"""Daily training that goes on from the last blessed checkpoint, and backfills, as their user meets them."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.user_run import ONE_RANK, World, processes_naming, sangam, start, states, wait_until
from tests.errors import mentions

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

FIRST, SECOND, THIRD = "2026-03-03", "2026-03-04", "2026-03-05"
EPOCHS = 10
Changes = dict[tuple[str | int, ...], Any]
INCREMENTAL: Changes = {("training", "mode"): "incremental", ("data", "train_days"): 2, **ONE_RANK}
SERVED: Changes = {**INCREMENTAL, ("training", "sync"): {"kind": "stale", "staleness": 2}}
"""Its rows are on a parameter server, and come from a base whose rank held them."""
REFUSING: Changes = {**INCREMENTAL, ("gates", 1, "at_least"): 0.999}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, demo_spec_path: Path) -> World:
    made = World(tmp_path_factory.mktemp("incremental"), demo_spec_path)
    made.generate()
    return made


@pytest.fixture(scope="module")
def first(world: World) -> dict[str, Any]:
    return _blessed(world.run(world.spec("daily", INCREMENTAL), date=FIRST))


def _blessed(ended: tuple["subprocess.CompletedProcess[str]", dict[str, Any]]) -> dict[str, Any]:
    done, summary = ended
    assert done.returncode == 0, done.stdout + done.stderr
    return summary


def _reports(root: Path) -> list[dict[str, Any]]:
    """Returns the reports of all trainings, oldest first."""
    found = (root / "artifacts" / "trainer" / "training").glob("*/training.json")
    return [json.loads(path.read_text()) for path in sorted(found, key=lambda path: int(path.parent.name))]


def _records(root: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted((root / "blessed" / "short_video").iterdir())]


def test_the_first_day_trains_from_nothing_and_says_so(world: World, first: dict[str, Any]) -> None:
    assert first["days"] == {"train": ["2026-03-01", "2026-03-02"], "eval": [FIRST]}
    assert first["base_last_day"] is None
    assert any(mentions(note, "no blessed checkpoint ... 2026-03-02") for note in first["notes"])
    [record] = _records(world.root)
    assert record["days"] == ["2026-03-01", "2026-03-02"]
    assert Path(record["checkpoint_uri"], "checkpoint", "manifest.json").exists()
    assert not (world.root / "checkpoints").exists()


def test_a_rejected_day_is_no_base_and_the_day_after_makes_up_for_it(world: World, first: dict[str, Any]) -> None:
    done, refused = world.run(world.spec("refusing", REFUSING), date=SECOND)
    assert done.returncode == 3, done.stdout + done.stderr
    assert refused["base_last_day"] == "2026-03-02"
    assert refused["days"]["train"] == [FIRST]
    assert len(_records(world.root)) == 1

    third = _blessed(world.run(world.spec("served", SERVED), date=THIRD))
    assert third["base_last_day"] == "2026-03-02"
    assert third["days"] == {"train": [FIRST, SECOND], "eval": [THIRD]}
    assert third["rows"]["train"]["written"] == 6000
    record = _records(world.root)[-1]
    assert record["days"] == ["2026-03-01", "2026-03-02", FIRST, SECOND]
    manifest = json.loads(Path(third["pushed"]["path"], "manifest.json").read_text())
    assert (manifest["base_days"], manifest["days"]["train"]) == (["2026-03-01", "2026-03-02"], [FIRST, SECOND])


def test_training_goes_on_with_the_weights_and_the_inputs_of_the_base(world: World, first: dict[str, Any]) -> None:
    base, last = _records(world.root)[0], _records(world.root)[-1]
    graphs = [Path(record["transform_graph_uri"]) for record in (base, last)]
    assert graphs[0] != graphs[1]
    statistics = [(graph / "statistics.json").read_bytes() for graph in graphs]
    assert statistics[0] == statistics[1]
    reports = _reports(world.root)
    assert [report["sync"]["kind"] for report in reports] == ["sync", "sync", "stale"]
    losses = [report["epochs"][0]["mean_loss"]["long_watch"] for report in reports]
    # The first epoch of a later day begins where the base ended, not where it began.
    assert losses[-1] < losses[0]


def test_a_rerun_of_a_day_finds_the_same_base_and_is_cached(world: World, first: dict[str, Any]) -> None:
    again = _blessed(world.run(world.spec("served", SERVED), date=THIRD))
    assert set(states(again).values()) == {"cached"}
    assert again["base_last_day"] == "2026-03-02"
    assert len(_records(world.root)) == 2


@pytest.mark.timeout(1200)
def test_a_backfill_that_was_killed_goes_on_in_the_midst_of_the_training(world: World) -> None:
    root = world.directory / "backfilled"
    changes: Changes = {
        **INCREMENTAL,
        ("training", "incremental_epochs"): EPOCHS,
        ("training", "checkpoint"): {"every_steps": 20},
    }
    # So many epochs on so few rows fit the day at hand; how well is no matter here.
    changes |= {("gates", number, "max_drop"): 1.0 for number in range(4)}
    command = ["backfill", str(world.spec("backfill", changes)), "--from", FIRST, "--to", SECOND]
    command += ["--data", str(world.logs), "--root", str(root)]
    process = start(command, world.directory / "backfill.txt")

    def second_date_trains() -> bool:
        assert process.poll() is None, (world.directory / "backfill.txt").read_text()
        record = root / "backfill" / "short_video" / "backfill.json"
        return record.exists() and any((root / "checkpoints").glob("*/*/step-*/manifest.json"))

    wait_until(second_date_trains, "the second date has a checkpoint", 300)
    process.kill()
    process.wait(10)
    wait_until(lambda: processes_naming(root) == [], "no process is left", 60)

    done = sangam(*command)
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads((root / "backfill" / "short_video" / "backfill.json").read_text())["dates"]
    assert [found["base_last_day"] for found in record.values()] == [None, "2026-03-02"]
    assert [found["num_train_days"] for found in record.values()] == [2, 1]
    assert f"{FIRST} blessed  done before" in done.stdout
    reports = _reports(root)
    assert [bool(report["resumed_from_step"]) for report in reports] == [False, True]
    assert [epoch["examples"] for epoch in reports[1]["epochs"]] == [3000] * EPOCHS
    assert not (root / "checkpoints").exists()
