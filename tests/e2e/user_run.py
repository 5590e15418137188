"""Runs `sangam` as its user does: as a process, on small generated logs, with changed copies of the demo's spec."""

import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import psutil
from ruamel.yaml import YAML

from sangam.pipelines.synthetic import generate
from sangam.schemas.spec.cluster import StepName
from tests.e2e import warm_commands
from tests.trainer_module.launch.warm import Warm

DATE = "2026-03-05"
STEPS = [name for name in get_args(StepName) if name != "reporter"]
"""In the order in which a run on one machine takes them; it draws its page without a step."""
ONE_RANK: dict[tuple[str | int, ...], Any] = {("cluster", "ranks"): 1, ("cluster", "data_workers"): 0}
"""Changes of a spec: its training takes one process instead of five; for tests of other things."""
LEAN: dict[tuple[str | int, ...], Any] = {
    **ONE_RANK,
    ("tables",): {"users": {"dim": 8}, "authors": {"dim": 8}},
    ("features",): {
        "user": {"kind": "id", "column": "user_id", "type": "string", "table": "users"},
        "author": {"kind": "id", "column": "author_id", "type": "int", "table": "authors", "missing": 0},
        "duration_s": {"kind": "numeric", "clip": [0, 600], "log": True},
        "hour": {"kind": "numeric", "type": "int", "normalize": "minmax"},
    },
    ("model",): {"kind": "mmoe", "num_experts": 2, "expert_units": [16], "tower_units": [8]},
    ("evaluation",): {"group": {"by": "user"}},
}
"""The same with a small ranker, which takes a third of the seconds; for tests of what becomes of runs."""
LEAN_RETAIL: dict[str, Any] = {
    "tables": {"users": {"dim": 8}, "items": {"dim": 8}, "words": {"dim": 8}, "countries": {"dim": 4}},
    "features": {
        "user": {"kind": "id", "column": "user_id", "type": "string", "table": "users"},
        "country": {"kind": "id", "type": "string", "table": "countries"},
        "words": {
            "kind": "ids",
            "column": "description_words",
            "type": "string",
            "table": "words",
            "combiner": "mean",
            "max_values": 8,
        },
        "recent_items": {
            "kind": "sequence",
            "column": "user_recent_items",
            "type": "string",
            "table": "items",
            "max_length": 20,
        },
        "hour": {"kind": "numeric", "type": "int"},
        "unit_price": {"kind": "numeric", "clip": [0, 1000], "log": True},
    },
    "model": {"kind": "mmoe", "num_experts": 2, "expert_units": [16], "tower_units": [8]},
}
"""Sections of `online_retail.yaml` with a feature of each of its kinds and a small ranker, for the same reason."""
_NUM_DAYS = 5
_TIMEOUT_S = 400


@dataclass(frozen=True)
class World:
    """A folder with logs, a pipeline root and the specs that were tried.

    Attributes:
        directory: of everything.
        spec_path: the demo's spec, which variants are made of.
    """

    directory: Path
    spec_path: Path

    @property
    def logs(self) -> Path:
        """The generated logs."""
        return self.directory / "logs"

    @property
    def root(self) -> Path:
        """The pipeline root."""
        return self.directory / "root"

    def generate(self) -> None:
        """Makes the logs, as `sangam generate` does."""
        generate(
            self.logs,
            first_day=datetime.date(2026, 3, 1),
            num_days=_NUM_DAYS,
            rows_per_day=3000,
            num_users=200,
            num_posts=300,
            seed=3,
        )

    def spec(self, name: str, changes: Mapping[tuple[str | int, ...], Any]) -> Path:
        """Writes a variant of the spec: {path in the document: new value}."""
        yaml = YAML()
        document = yaml.load(self.spec_path.read_text())
        document["data"]["train_days"] = _NUM_DAYS - 1
        document["training"]["batch_size_per_rank"] = 128
        # One gate for each task: the others bind metrics that so few examples leave to chance.
        del document["gates"][4:]
        for gate in document["gates"]:
            gate["at_least"] = 0.3
        for path, value in changes.items():
            node = document
            for part in path[:-1]:
                node = node[part]
            node[path[-1]] = value
        target = self.directory / f"{name}.yaml"
        with target.open("w") as file:
            yaml.dump(document, file)
        return target

    def arguments(
        self, spec: Path, *, date: str = DATE, logs: Path | None = None, root: Path | None = None
    ) -> list[str]:
        """Returns the arguments of a run."""
        folders = ["--data", str(logs or self.logs), "--root", str(root or self.root)]
        return ["run", str(spec), "--date", date, *folders]

    def run(
        self,
        spec: Path,
        *,
        date: str = DATE,
        root: Path | None = None,
        is_cold: bool = False,
        variables: Mapping[str, str] | None = None,
    ) -> tuple["subprocess.CompletedProcess[str]", dict[str, Any]]:
        """Runs a spec to its end; returns the process and its summary."""
        done = sangam(*self.arguments(spec, date=date, root=root), is_cold=is_cold, variables=variables)
        return done, summary_of(done.stdout)

    def runs(self) -> set[Path]:
        """Returns the folders of all runs so far."""
        return set((self.root / "runs").glob("2*"))

    def versions(self) -> list[str]:
        """Returns the pushed versions."""
        folder = self.root / "serving" / "short_video"
        return sorted(path.name for path in folder.iterdir() if path.name.isdigit()) if folder.exists() else []


def sangam(
    *arguments: str, timeout_s: float = _TIMEOUT_S, is_cold: bool = False, variables: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Runs a command to its end.

    Args:
        arguments: what follows `sangam`.
        timeout_s: until the test fails.
        is_cold: it is started as users do, not forked from a process that has loaded TFX.
        variables: added to the environment.
    """
    environment_ = {**environment(), **(variables or {})}
    command = [sys.executable, "-m", "sangam.pipelines.cli", *arguments]
    if is_cold:
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False, env=environment_)
    with tempfile.TemporaryDirectory() as folder:
        output, errors = Path(folder, "output"), Path(folder, "errors")
        process = warm_commands.start(arguments, environment_, output, errors)
        try:
            code = process.wait(timeout_s)
        finally:
            process.kill()
        return subprocess.CompletedProcess(command, code, output.read_text(), errors.read_text())


def start(
    arguments: list[str], log: Path, variables: Mapping[str, str] | None = None, *, is_cold: bool = False
) -> "subprocess.Popen[bytes] | Warm":
    """Starts a command, with more variables of its environment, and does not wait; its output goes to a file."""
    log.unlink(missing_ok=True)
    environment_ = {**environment(), **(variables or {})}
    if not is_cold:
        return warm_commands.start(arguments, environment_, log)
    with log.open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "sangam.pipelines.cli", *arguments], stdout=output, stderr=output, env=environment_
        )


def environment() -> dict[str, str]:
    """Returns the environment of a terminal: wide enough that no line is cut."""
    return {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}


def summary_of(output: str) -> dict[str, Any]:
    """Returns the summary that a run says it has written."""
    [line] = [line for line in output.splitlines() if line.startswith("summary: ")]
    document: dict[str, Any] = json.loads(Path(line.removeprefix("summary: ")).read_text())
    return document


def states(summary: Mapping[str, Any]) -> dict[str, str]:
    """Returns what became of each step."""
    return {name: step["state"] for name, step in summary["steps"].items()}


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 180) -> None:
    """Waits, and fails with a word when it takes too long."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.1)


def processes_naming(path: Path) -> list[str]:
    """Returns the living processes that have a path in their command line."""
    found = []
    for process in psutil.process_iter():
        try:
            command = " ".join(process.cmdline())
            if str(path) in command and process.status() != psutil.STATUS_ZOMBIE:
                found.append(command)
        except psutil.NoSuchProcess:
            continue
    return found
