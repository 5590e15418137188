"""Stands in for `sangam run --json`: ends as `pretend.json` in the root says, once it has told how it goes."""

import json
import os
import signal
import sys
import time
from pathlib import Path

from tests.pipelines.backfill.fake_run import record


def main(arguments: list[str]) -> int:
    """Runs; but for flags the options come in pairs."""
    assert arguments[0] == "run"
    spec, options = arguments[1], dict(zip(arguments[2::2], arguments[3::2], strict=False))
    root = Path(options["--root"])
    told = json.loads((root / "pretend.json").read_text())
    (root / "called.json").write_text(json.dumps({"arguments": arguments, "spec": Path(spec).read_text()}))
    print("trainer 2 s ünning", file=sys.stderr, flush=True)
    if told.get("hangs"):
        signal.signal(signal.SIGINT, lambda *_: sys.exit(_stopped(root)))
        (root / "pid").write_text(str(os.getpid()))
        time.sleep(60)
    if error := told.get("error"):
        print(error, file=sys.stderr)
    if signum := told.get("signal"):
        os.kill(os.getpid(), signum)
    if status := told.get("status"):
        _end(root, status, told.get("reason"))
    return int(told["code"])


def _end(root: Path, status: str, reason: str | None) -> None:
    run = root / "runs" / "20240308T020000-1a2b3c4d"
    run.mkdir(parents=True)
    text = json.dumps({**record(run, "2024-03-07", 0.7, status), "error": reason})
    (run / "summary.json").write_text(text)
    print(text)


def _stopped(root: Path) -> int:
    print("stopping", file=sys.stderr)
    _end(root, "stopped", "stopped by SIGINT")
    return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
