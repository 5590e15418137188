"""Commands on folders of any name; whole runs in one: tests/e2e/test_daily_run.py."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings

from sangam.pipelines.drafting.layout import layout_of
from tests.components.logs.files.test_paths import NAMES
from tests.pipelines.drafting.sample_logs import CLICKED, ROWS, USERS, write_days
from tests.pipelines.history.command import sangam
from tests.pipelines.ui.sample_root import NEW, OLD, run_id, write_runs


@pytest.mark.slow
@settings(max_examples=2, deadline=None)
@given(name=NAMES)
@example(name="exp [v1] #2 100% é? {x}*")
@example(name="a" * 250)
@example(name='it\'s $HOME; "quoted" & `so`, [only')
def test_commands_read_and_write_folders_of_any_name(name: str) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made, name)
        logs = write_days(folder / "logs", {"user_id": USERS, "clicked": CLICKED, "item_id": list(range(ROWS))})
        spec, root = folder / "spec.yaml", write_runs(folder / "root").path
        sangam("generate", "--output", str(folder / "generated"), "--days", "1", "--rows-per-day", "10")
        sangam("init", str(logs), "--output", str(spec), "--label", "clicked")
        sangam("validate", str(spec))
        sangam("plan", str(spec), "--rows", "users=1e3")
        if str(folder).isprintable() and "\\" not in str(
            folder
        ):  # Others are refused: a timer's file cannot have them.
            sangam("schedule", "print", str(spec), "--at", "02:00", "--data", str(logs), "--root", str(root))
        assert len(layout_of(logs).days) == 4
        assert run_id(NEW) in sangam("runs", str(root), "--json").stdout
        for command in ("show", "why"):
            sangam(command, str(root))
        sangam("diff", str(root / "runs" / run_id(OLD)), str(root / "runs" / run_id(NEW)))
        sangam("report", str(root))
        sangam("clean", str(root), "--dry-run", "--runs", "3")
