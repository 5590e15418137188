"""Processes of containers end by SIGTERM even while they still import."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import REPOSITORY
from tests.trainer_module.launch.launched_job import wait_until

pytestmark = pytest.mark.slow

_SLOW = """
import pathlib, time
pathlib.Path(__file__).with_name("begun").touch()
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("command", "slow", "code"),
    [
        (["sangam.trainer_module.launch.coordinator"], "pydantic", 143),
        (["sangam.trainer_module.launch.host"], "pydantic", 143),
        (["sangam.trainer_module.launch.data_service", "dispatcher"], "tensorflow", 143),
        (["sangam.components.kfp_entrypoint"], "pydantic", 143),
        (["sangam.components.server", "."], "pydantic", 0),
        (["sangam.components.server", ".", "--grpc-port", "0", "--rest-port", "0"], "tensorflow", 0),
    ],
)
def test_sigterm_ends_a_process_that_imports(tmp_path: Path, command: list[str], slow: str, code: int) -> None:
    """The package that it waits for is one that never loads; the code is of a handler, not of the kernel."""
    package = tmp_path / slow
    package.mkdir()
    (package / "__init__.py").write_text(_SLOW)
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{REPOSITORY}"}
    with subprocess.Popen([sys.executable, "-m", *command], env=environment) as process:
        try:
            wait_until((package / "begun").exists, 60, f"it imports {slow}")
            process.terminate()
            assert process.wait(60) == code
        finally:
            process.kill()
