import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.trainer_module.sample_job import declared, job
from trainer_module.launch.children import ALLOCATOR, Child

pytestmark = pytest.mark.slow

_PROBE = "tests.trainer_module.launch.page_faults"


def test_a_process_of_a_job_keeps_the_memory_of_a_step_for_the_next_one(tmp_path: Path) -> None:
    launched, defaults = tmp_path / "launched", tmp_path / "defaults"
    (tmp_path / "logs").mkdir()
    child = Child(job(tmp_path, declared(), ()), "probe", [_PROBE, str(launched)])
    child.reap(120)
    assert child.exit_code() == 0, child.log.read_text()
    environment = {name: value for name, value in os.environ.items() if name not in ALLOCATOR}
    environment["TF_ONEDNN_USE_SYSTEM_ALLOCATOR"] = "1"
    subprocess.run([sys.executable, "-m", _PROBE, str(defaults)], env=environment, check=True, timeout=120)
    assert float(launched.read_text()) < 0.5 * float(defaults.read_text())


def test_what_the_environment_says_of_memory_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1")
    (tmp_path / "logs").mkdir()
    shown = tmp_path / "shown"
    code = f"import os, pathlib; pathlib.Path({str(shown)!r}).write_text(os.environ['MALLOC_TRIM_THRESHOLD_'])"
    (tmp_path / "show.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    child = Child(job(tmp_path, declared(), ()), "probe", ["show"])
    child.reap(60)
    assert (child.exit_code(), shown.read_text()) == (0, "1")
