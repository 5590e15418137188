"""`sangam ui` as a process."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.paths import REPOSITORY


@contextmanager
def sangam_ui(root: Path, *options: str) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """Runs the command on any free port; yields the address that it prints, and the process."""
    command = [sys.executable, "-m", "pipelines.cli", "ui", str(root), "--port", "0", *options]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY, env={**os.environ}
    )
    try:
        assert process.stdout
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found, process.stderr.read() if process.stderr else ""
        yield found[0], process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
