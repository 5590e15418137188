"""Commands of a shell that has less than usual, and settings for other programs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sangam.schemas.loading import load_spec
from tests.odd_shell import ODD_SHELL
from tests.paths import REPOSITORY
from tests.pipelines.drafting.sample_logs import CLICKED, USERS, write_days


@pytest.mark.processes
def test_a_command_needs_no_home_no_temporary_folder_and_few_open_files(tmp_path: Path) -> None:
    logs, spec = write_days(tmp_path / "logs", {"user_id": USERS, "clicked": CLICKED}), tmp_path / "spec.yaml"
    environ = {"PATH": os.environ["PATH"], **ODD_SHELL, "TMPDIR": str(tmp_path / "none")}
    command = [sys.executable, "-m", "sangam.pipelines.cli", "init", str(logs), "--output", str(spec)]
    few_files = ["sh", "-c", 'ulimit -n 128; exec "$@"', "sh", *command]
    done = subprocess.run(few_files, cwd=REPOSITORY, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert list(load_spec(spec).tasks) == ["clicked"]
