"""What a user gets who types `sangam init` and `sangam run`: the verdict's own numbers, and the seconds of both."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ruamel.yaml import YAML

from bench.quality.peers.contest import Contest
from bench.quality.peers.results import Measured

_REFUSED = 3
"""Exit code of a run whose model a gate refused: its verdict counts as any."""


def drafted(contest: Contest, folder: Path) -> tuple[Path, float]:
    """Returns the draft of `sangam init`, as it is, and its processor seconds."""
    folder.mkdir(parents=True, exist_ok=True)
    spec = folder / "spec.yaml"
    labels = [word for label in contest.labels for word in ("--label", label)]
    arguments = ["init", str(contest.data()), "--output", str(spec), "--name", contest.name, "--force", *labels]
    cpu_s, _, _ = _command(arguments, folder / "init.log")
    return spec, cpu_s


def measured(contest: Contest, seed: int, folder: Path) -> Measured:
    """Drafts and runs on an empty root; seed 1 is the draft's own, others are written into it."""
    spec, init_s = drafted(contest, folder)
    if seed > 1:
        _with_seed(spec, seed)
    root = folder / "root"
    shutil.rmtree(root, ignore_errors=True)
    date = ["--date", contest.date] if contest.date else []
    arguments = ["run", str(spec), "--data", str(contest.data()), "--root", str(root), "--json", *date]
    run_s, wall_s, output = _command(arguments, folder / "run.log")
    summary = json.loads(output)
    metrics = {task: summary["tasks"][task]["metrics"] for task in contest.labels}
    return Measured(
        aucs={task: of_task["auc"] for task, of_task in metrics.items()},
        calibrations={task: of_task["calibration"] for task, of_task in metrics.items()},
        cpu_s=init_s + run_s,
        wall_s=wall_s,
        note=summary["status"],
    )


def _with_seed(spec: Path, seed: int) -> None:
    editor = YAML(typ="rt")
    document = editor.load(spec)
    document["training"]["seed"] = seed
    editor.dump(document, spec)


def _command(arguments: Sequence[str], log: Path) -> tuple[float, float, str]:
    """Returns processor seconds of a command and its processes, its seconds, and its standard output."""
    begun = time.monotonic()
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-m", "sangam.pipelines.cli", *arguments]
    output = log.with_suffix(".out")
    with log.open("w") as errors, output.open("w") as answers:
        process = subprocess.Popen(command, stdout=answers, stderr=errors, env=environment)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, _REFUSED):
        raise SystemExit(f"bench.quality.peers: sangam {arguments[0]} failed; its output is in {log}")
    return used.ru_utime + used.ru_stime, time.monotonic() - begun, output.read_text()
