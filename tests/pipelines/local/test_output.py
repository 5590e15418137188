"""Logs of a run are UTF-8, whatever encoding the terminal has."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import REPOSITORY

PROGRAM = """
import subprocess, sys
from pathlib import Path
from sangam.pipelines.local.output import keep_stream, send_output_to
terminal = keep_stream(1)
send_output_to(Path(sys.argv[1]))
print("städte 用", flush=True)
subprocess.run([sys.executable, "-c", "print('aus einem Kind: 用')"])
print("städte", file=terminal)
"""


@pytest.mark.processes
def test_logs_are_utf8_and_the_terminal_keeps_its_encoding(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    environ = os.environ | {"PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(log)],
        cwd=REPOSITORY,
        env=environ,
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert log.read_text(encoding="utf-8") == "städte 用\naus einem Kind: 用\n"
    assert done.stdout == "städte\n".encode("latin-1")
