"""Runs `sangam` in forks of a process that has loaded TFX, which takes eleven seconds of a core.

The commands are the real ones, in processes of their own, and so are the launchers and servers that they start; only
Python's start is saved. `test_daily_run` starts its own as users do.
"""

import atexit
import gc
import importlib
import os
import runpy
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from sangam.pipelines.local import watched
from sangam.schemas.host.needless_imports import leave_out_needless_of_tfx
from sangam.schemas.host.parent_process import adopt_orphans, end_with_parent
from sangam.trainer_module.launch import nursery
from sangam.trainer_module.launch.nursery import Nursery
from tests.paths import REPOSITORY
from tests.trainer_module.launch.warm import Warm, fork_groups

COMMAND_LINE = "sangam.pipelines.cli"
"""The module of `sangam`."""
_LOADED = (
    COMMAND_LINE,
    "sangam.components.steps.evaluator.executor",
    "sangam.components.steps.example_gen.executor",
    "sangam.components.steps.example_validator.executor",
    "sangam.components.steps.infra_validator.executor",
    "sangam.components.steps.pusher.executor",
    "sangam.components.steps.schema_gen.executor",
    "sangam.components.steps.trainer.executor",
    "sangam.components.steps.transform.executor",
    "sangam.pipelines.local.runner",
    "sangam.pipelines.local.terminal",
    "sangam.pipelines.pipeline",
    "sangam.trainer_module.transforms.preprocessing",
)
_NO_LIMIT = "-" * 4096
FOLDER = "SANGAM_TEST_FOLDER"
"""Variable with the folder in which a command runs."""


def start(arguments: Sequence[str], environment: Mapping[str, str], output: Path, errors: Path | None = None) -> Warm:
    """Starts a command; its output, and unless told otherwise its errors, go to a file."""
    return start_module([COMMAND_LINE, *arguments], environment, output, errors)


def start_module(
    words: Sequence[str], environment: Mapping[str, str], output: Path, errors: Path | None = None
) -> Warm:
    """Does the same for a module and its arguments."""
    forked = _commands().start(
        [__name__, str(output), str(errors or output), *words], {FOLDER: os.getcwd(), **environment}, _log()
    )
    assert forked is not None, _log().read_text()[-3000:]
    return Warm(forked.pid)


class Started:
    """A started module, with as much of `subprocess.Popen` with pipes as tests need."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], output: Path, errors: Path):
        """Starts it; what it prints goes to two files, or to one."""
        output.unlink(missing_ok=True)
        errors.unlink(missing_ok=True)
        self._process = start_module(words, environment, output, errors)
        self._output, self._errors, self.pid = output, errors, self._process.pid
        self.poll, self.kill, self.send_signal = self._process.poll, self._process.kill, self._process.send_signal

    @property
    def returncode(self) -> int | None:
        """The exit code, None while it runs."""
        return self.poll()

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Waits for its end; returns what it printed."""
        self._process.wait(timeout)
        return self._output.read_text(), self._errors.read_text()


class _Commands(Nursery):
    """A nursery of commands."""

    def _begin(self) -> None:
        adopt_orphans()
        self._channel, its_end = socket.socketpair()
        with self._log.open("ab") as log, its_end:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(os.getpid()), _NO_LIMIT],
                cwd=REPOSITORY,
                env=self._environment,
                stdin=its_end.fileno(),
                stdout=log,
                stderr=log,
            )


@cache
def _log() -> Path:
    folder = tempfile.TemporaryDirectory(prefix="warm-")
    atexit.register(folder.cleanup)
    return Path(folder.name) / "commands.log"


@cache
def _commands() -> Nursery:
    made = _Commands(_log(), os.environ)
    atexit.register(made.__exit__)
    return made


def _serve(parent_pid: str) -> None:
    """Loads what a run needs, then forks on request."""
    end_with_parent(int(parent_pid))
    leave_out_needless_of_tfx()
    for module in (*_LOADED, *nursery._IMPORTED):
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=os.dup(0)) as channel:
        request = nursery._serve(channel)
    if request is not None:
        nursery._become(request)


def _run(output: str, errors: str, module: str, *arguments: str) -> None:
    """Runs a module in this process, as `python -m` does."""
    os.chdir(os.environ.pop(FOLDER))
    for file, number in ((output, 1), (errors, 2)):
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(opened, number)
        os.close(opened)
    if module == COMMAND_LINE:
        _fork_groups(Path(output))
    nursery._show([sys.executable, "-m", module, *arguments])
    sys.argv[1:] = arguments
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _fork_groups(output: Path) -> None:
    fork_groups(output)

    def begin_run(parent: int) -> None:
        end_with_parent(parent)
        fork_groups(output)

    # A run starts its groups in a child process.
    watched.end_with_parent = begin_run  # type: ignore[assignment, attr-defined]


if __name__ == "__main__":
    if sys.argv[1].isdigit():
        _serve(sys.argv[1])
    else:
        _run(*sys.argv[1:])
