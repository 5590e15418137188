"""`sangam ui` as a process."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.paths import REPOSITORY


@contextmanager
def sangam_ui(
    root: Path, *options: str, reads: Callable[[str], Any] = lambda line: re.findall(r"http://\S+", line)[0]
) -> Iterator[tuple[Any, "subprocess.Popen[str]"]]:
    """Runs the command on any free port; yields what is read from its first line, the address, and the process."""
    command = [sys.executable, "-m", "sangam.pipelines.cli", "ui", str(root), "--port", "0", *options]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY, env={**os.environ}
    )
    try:
        assert process.stdout
        line = process.stdout.readline()
        assert line, process.stderr.read() if process.stderr else ""
        yield reads(line), process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
