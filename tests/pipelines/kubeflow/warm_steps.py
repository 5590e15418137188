"""Runs a step's command in a fork of a process that has loaded TFX, instead of a new one that must load it.

The words, the variables, the entry point and its child are the same; only Python's start is saved, which is most of a
small step. The first runs of a compiled file are started as they stand.
"""

import contextlib
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import forkserver
from pathlib import Path

from sangam.trainer_module.launch import nursery
from tests.trainer_module.launch.warm import fork_groups

PRELOADED = [
    "sangam.components.kfp_entrypoint.artifacts",
    "sangam.components.steps.evaluator.executor",
    "sangam.components.steps.example_gen.executor",
    "sangam.components.steps.example_validator.executor",
    "sangam.components.steps.infra_validator.executor",
    "sangam.components.steps.pusher.executor",
    "sangam.components.steps.reporter.executor",
    "sangam.components.steps.schema_gen.executor",
    "sangam.components.steps.trainer.executor",
    "sangam.components.steps.transform.executor",
    "sangam.trainer_module.transforms.preprocessing",
    *nursery._IMPORTED,
]
_FORKS = multiprocessing.get_context("forkserver")


def start(words: Sequence[str], environment: Mapping[str, str], log: Path, timeout_s: float) -> int:
    """Runs `python -m sangam.components.kfp_entrypoint ...` to its end and returns its exit code."""
    _FORKS.set_forkserver_preload(PRELOADED)
    assert list(words[1:3]) == ["-m", "sangam.components.kfp_entrypoint"]
    process = _FORKS.Process(target=_entrypoint, args=(list(words[3:]), dict(environment), str(log)))
    process.start()
    process.join(timeout_s)
    if process.exitcode is None:
        process.kill()
        raise TimeoutError(f"{words}: takes longer than {timeout_s} s")
    return process.exitcode


def stop() -> None:
    """Ends the process with TFX in it, which is large."""
    forkserver._forkserver._stop()  # type: ignore[attr-defined]


def _entrypoint(arguments: list[str], environment: dict[str, str], log: str) -> None:
    from sangam.components.kfp_entrypoint import __main__ as entrypoint
    from sangam.components.kfp_entrypoint import task

    file = os.open(log, os.O_WRONLY | os.O_CREAT)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.environ.clear()
    os.environ.update(environment)
    task.run = _run  # type: ignore[assignment]
    os._exit(entrypoint.main(arguments))


def _run(command: "object", name: Callable[[], str], _stop: "object", _timeout_s: float | None) -> "object":
    """Stands for `sangam.components.kfp_entrypoint.process.run`."""
    from sangam.components.kfp_entrypoint import child
    from sangam.components.kfp_entrypoint.ending import Report, ending_of

    with tempfile.TemporaryDirectory(prefix="sangam-step-") as folder:
        report = Path(folder) / "report.json"
        pid = os.fork()
        if pid == 0:
            os.setsid()
            code = 1
            try:
                fork_groups(Path("/proc/self/fd/1"))
                code = child.main(report, command.module, list(command.arguments))  # type: ignore[attr-defined]
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        # As the entry point does, none of the group is left.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        said = Report.model_validate_json(report.read_text()) if report.exists() else None
        return ending_of(code, said, name(), None)
