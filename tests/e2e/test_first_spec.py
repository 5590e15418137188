"""From logs to a model without a spec: examples/first_ranker.md as it stands, and a draft for two weeks of a shop."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.browser.pages import look_at
from tests.e2e.user_run import sangam, summary_of
from tests.e2e.warm_commands import FOLDER
from tests.paths import REPOSITORY, SHARED_DATA

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.long]


def _run(line: str, folder: Path) -> str:
    """Runs a line of a page in a folder; returns what it prints. Bash expands the words, also those of `sangam`."""
    is_ours = line.startswith("sangam ")
    script = f"printf '%s\\0' {line}" if is_ours else line
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=folder, capture_output=True, text=True, check=False
    )
    if is_ours:
        done = sangam(*done.stdout.split("\0")[1:-1], variables={FOLDER: str(folder)})
    assert done.returncode == 0, line + done.stdout + done.stderr
    return done.stdout


def test_the_example_runs_as_it_is_written_and_compares_two_models(tmp_path: Path) -> None:
    page = (REPOSITORY / "examples" / "first_ranker.md").read_text()
    lines = "".join(re.findall(r"```sh\n(.*?)```", page, re.DOTALL)).splitlines()
    folder = tmp_path / "empty"
    folder.mkdir()
    printed = ""
    for line in lines:
        printed += _run(line, folder)
        if line.startswith("sangam init"):
            # But for the number of processes: the next test has that of a draft.
            with (folder / "feed.yaml").open("a") as draft:
                draft.write("cluster: {ranks: 1, data_workers: 0}\n")
    summaries = sorted((folder / "runs" / "runs").glob("2*/summary.json"))
    first, second = (json.loads(path.read_text()) for path in summaries)
    assert list(first["tasks"]) == ["like", "share", "download", "long_watch"]
    assert first["spec_digest"] != second["spec_digest"]
    assert _aucs(first) != _aucs(second)
    assert first["tasks"]["long_watch"]["auc"] > 0.6
    # Only what the changed line is about runs again.
    assert second["steps"]["transform"]["cached"]
    assert not second["steps"]["trainer"]["cached"]
    # The comparison, as the page ends.
    assert "training.dense_optimizer.learning_rate" in printed
    assert "2 runs since 2024-02-05" in printed
    look_at(folder / "runs" / "report.html", "2 runs", "2 pushed", "long_watch")


@pytest.mark.real_data
def test_a_draft_for_two_weeks_of_online_retail_is_blessed_unedited(tmp_path: Path) -> None:
    if not SHARED_DATA.exists():
        pytest.skip(f"needs the real data beside the checkout, in {SHARED_DATA}")
    logs, spec = tmp_path / "logs", tmp_path / "shop.yaml"
    logs.mkdir()
    for day in sorted((SHARED_DATA / "online_retail" / "lines").glob("2011-11-*"))[:12]:
        (logs / day.name).symlink_to(day)
    labels = [part for name in ("reorder", "bulk", "high_value") for part in ("--label", name)]
    drafted = sangam("init", str(logs), "--output", str(spec), *labels)
    assert drafted.returncode == 0, drafted.stderr
    # The command as it is printed, but for the root.
    run = drafted.stdout.splitlines()[-1].split()
    assert run[:3] == ["sangam", "run", str(spec)]
    done = sangam(*run[1:-1], str(tmp_path / "root"))
    assert done.returncode == 0, done.stdout + done.stderr
    aucs = _aucs(summary_of(done.stdout))
    assert set(aucs) == {"reorder", "bulk", "high_value"}
    assert min(aucs.values()) > 0.7


def _aucs(summary: dict[str, Any]) -> dict[str, float]:
    return {name: task["auc"] for name, task in summary["tasks"].items()}
