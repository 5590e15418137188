import os
import subprocess
import sys
from pathlib import Path

import pytest

from sangam.trainer_module.launch.children import ALLOCATOR, Child, environment_of_all
from sangam.trainer_module.launch.failures import JobFailedError
from sangam.trainer_module.launch.nursery import Nursery
from tests.errors import mentions
from tests.trainer_module.sample_job import declared, job

pytestmark = pytest.mark.slow

_PROBE = "tests.trainer_module.launch.page_faults"


@pytest.mark.long
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


def _ended(tmp_path: Path, program: str, nursery: Nursery | None = None, module: str = "died") -> JobFailedError:
    """Returns the error of a process that has ended, of the second attempt."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "rank-0.log").write_text("of the first attempt\n")
    (tmp_path / "died.py").write_text(program)
    child = Child(job(tmp_path, declared(), ()), "rank-0", [module], {"PYTHONPATH": str(tmp_path)}, nursery=nursery)
    child.reap(60)
    return child.failed()


def test_a_process_that_dies_is_told_with_its_signal_and_its_own_last_output(tmp_path: Path) -> None:
    error = str(_ended(tmp_path, "import os\nprint('about to load')\nos.kill(os.getpid(), 4)"))
    assert mentions(error, "rank-0 ... SIGILL")
    assert "about to load" in error
    assert "first attempt" not in error


def test_one_that_wrote_nothing_is_told_so(tmp_path: Path) -> None:
    error = str(_ended(tmp_path, "import os\nos.kill(os.getpid(), 6)"))
    assert mentions(error, "rank-0 ... SIGABRT ... wrote nothing ... rank-0.log")
    assert "first attempt" not in error


def test_one_whose_forking_process_died_too_is_told_with_that_ones_end(tmp_path: Path) -> None:
    told = "if any('nursery' in word for word in sys.orig_argv):\n    print('no AVX', flush=True)"
    (tmp_path / "tensorflow.py").write_text(f"import os, sys\n{told}\nos.kill(os.getpid(), 4)")
    environment = {**environment_of_all(), "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', os.getcwd())}"}
    with Nursery(tmp_path / "nursery.log", environment) as lost:
        error = str(_ended(tmp_path, "import os\nos.kill(os.getpid(), 4)", lost, "sangam.trainer_module"))
    assert mentions(error, "rank-0 ... SIGILL")
    assert mentions(error, "forks ... SIGILL ... nursery.log")
    assert "no AVX" in error
