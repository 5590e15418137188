"""Stands in for the launcher of a training job: kills itself as often as its job file says, then does its work."""

import json
import os
import signal
import sys
from pathlib import Path


def main(job_file: str, parent_pid: str) -> int:
    """Writes what a training leaves."""
    assert int(parent_pid) == os.getppid()
    job = json.loads(Path(job_file).read_text())
    working = Path(job["checkpoint_dir"])
    attempts = working / "attempts"
    attempt = int(attempts.read_text()) if attempts.exists() else 0
    attempts.write_text(str(attempt + 1))
    model = Path(job["model_dir"])
    model.mkdir(exist_ok=True)
    if attempt < job["kills"]:
        os.kill(os.getpid(), getattr(signal, job["signal"]))
    if job["gives_up"]:
        Path(job["log_dir"], "failure.txt").write_text("training: rank-1 ended with code 1")
        return 1
    (model / "attempt.json").write_text(json.dumps(attempt))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
