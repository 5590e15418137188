"""A backfill of two days that is killed on its way: it resumes within a training, and its days are on one page."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.browser.pages import look_at
from tests.e2e.user_run import LEAN, World, processes_naming, sangam, start, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(900)]

DATES = ["2026-03-03", "2026-03-04"]
EPOCHS = 4
CHANGES: dict[tuple[str | int, ...], Any] = {
    **LEAN,
    ("training", "mode"): "incremental",
    ("data", "train_days"): 2,
    ("training", "incremental_epochs"): EPOCHS,
    ("training", "checkpoint"): {"every_steps": 20},
    ("cost",): {"currency": "EUR", "rank_per_hour": 0.4, "step_per_hour": 0.1},
    # So many epochs on so few rows fit the day at hand; how well does not matter here.
    **{("gates", number, "max_drop"): 1.0 for number in range(4)},
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, demo_spec_path: Path) -> World:
    made = World(tmp_path_factory.mktemp("backfilled"), demo_spec_path)
    made.generate()
    return made


def test_a_killed_backfill_resumes_in_the_midst_of_a_training(world: World) -> None:
    root, log = world.root, world.directory / "backfill.txt"
    command = ["backfill", str(world.spec("backfill", CHANGES)), "--from", DATES[0], "--to", DATES[-1]]
    command += ["--data", str(world.logs), "--root", str(root)]
    process = start(command, log)

    def second_date_trains() -> bool:
        assert process.poll() is None, log.read_text()
        record = root / "backfill" / "short_video" / "backfill.json"
        return record.exists() and any((root / "checkpoints").glob("*/*/step-*/manifest.json"))

    wait_until(second_date_trains, "the second date has a checkpoint", 300)
    process.kill()
    process.wait(60)
    wait_until(lambda: processes_naming(root) == [], "no process is left", 60)

    done = sangam(*command, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [date["state"] for date in json.loads(done.stdout)["dates"]] == ["pushed"] * 2
    record = json.loads((root / "backfill" / "short_video" / "backfill.json").read_text())["dates"]
    assert [found["base_last_day"] for found in record.values()] == [None, "2026-03-02"]
    assert [found["num_train_days"] for found in record.values()] == [2, 1]
    assert f"{DATES[0]} pushed   done before" in done.stderr
    trained = sorted(
        (root / "artifacts/trainer/training").glob("*/training.json"), key=lambda file: int(file.parent.name)
    )
    reports = [json.loads(file.read_text()) for file in trained]
    assert [bool(report["resumed_from_step"]) for report in reports] == [False, True]
    assert [epoch["examples"] for epoch in reports[1]["epochs"]] == [3000] * EPOCHS
    assert not (root / "checkpoints").exists()


def test_the_last_days_page_shows_the_days_before(world: World) -> None:
    page = max((world.root / "runs").glob("2*")) / "report.html"
    look_at(page, f"short_video · {DATES[-1]}", "auc of the last 30 days", "EUR")
    # The days below each task's chart.
    assert set(re.findall(r">(03-\d\d)<", page.read_text())) >= {day[5:] for day in DATES}


def test_all_days_are_on_one_page_with_their_cost(world: World) -> None:
    done = sangam("report", str(world.root), "--last", "30d")
    assert done.returncode == 0, done.stderr
    look_at(world.root / "report.html", "mean EUR", *DATES)
