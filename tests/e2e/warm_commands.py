"""Runs `sangam` in forks of a process that has loaded TFX, which takes eleven seconds of a core.

The commands are the real ones, in processes of their own, and so are the launchers and servers that they start; only
Python's start is saved. `test_daily_run` and `test_first_spec` start theirs as users do.
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

from pipelines.local import watched
from schemas.host.needless_imports import leave_out_needless_of_tfx
from schemas.host.parent_process import adopt_orphans, end_with_parent
from tests.trainer_module.launch.warm import Warm, fork_groups
from trainer_module.launch import nursery
from trainer_module.launch.nursery import Nursery

_COMMAND_LINE = "pipelines.cli"
_LOADED = (
    _COMMAND_LINE,
    "components.steps.evaluator.executor",
    "components.steps.example_gen.executor",
    "components.steps.example_validator.executor",
    "components.steps.infra_validator.executor",
    "components.steps.pusher.executor",
    "components.steps.schema_gen.executor",
    "components.steps.trainer.executor",
    "components.steps.transform.executor",
    "pipelines.local.runner",
    "pipelines.local.terminal",
    "pipelines.pipeline",
    "trainer_module.transforms.preprocessing",
)
_NO_LIMIT = "-" * 4096


def start(arguments: Sequence[str], environment: Mapping[str, str], output: Path, errors: Path | None = None) -> Warm:
    """Starts a command; its output, and unless told otherwise its errors, go to a file."""
    words = [__name__, str(output), str(errors or output), *arguments]
    forked = _commands().start(words, environment, _log())
    assert forked is not None, _log().read_text()[-3000:]
    return Warm(forked.pid)


class _Commands(Nursery):
    """A nursery of commands."""

    def _begin(self) -> None:
        adopt_orphans()
        self._channel, its_end = socket.socketpair()
        with self._log.open("ab") as log, its_end:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(os.getpid()), _NO_LIMIT],
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


def _run(output: str, errors: str, *arguments: str) -> None:
    """Runs a command in this process, as `python -m pipelines.cli` does."""
    for file, number in ((output, 1), (errors, 2)):
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(opened, number)
        os.close(opened)
    fork_groups(Path(output))

    def begin_run(parent: int) -> None:
        end_with_parent(parent)
        fork_groups(Path(output))

    # A run starts its groups in a child process.
    watched.end_with_parent = begin_run  # type: ignore[assignment, attr-defined]
    nursery._show([sys.executable, "-m", _COMMAND_LINE, *arguments])
    sys.argv[1:] = arguments
    runpy.run_module(_COMMAND_LINE, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    if sys.argv[1].isdigit():
        _serve(sys.argv[1])
    else:
        _run(*sys.argv[1:])
