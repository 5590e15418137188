"""Runs the step's process to its end, and ends it when this one is asked to stop."""

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from components.kfp_entrypoint.ending import Ending, Report, ending_of, stopped
from components.kfp_entrypoint.invocation import Command
from components.processes.group import end_group

GRACE_S = 20.0
"""Within the 30 s that Kubernetes gives a pod, and longer than the trainer gives its own processes."""
_CHILD = "components.kfp_entrypoint.child"


class _Asked(BaseException):
    """A signal to stop has come."""

    def __init__(self, number: int):
        self.number = number
        super().__init__(signal.Signals(number).name)


def run(command: Command, step: str) -> Ending:
    """Runs the command in a process of its own and returns how it ended.

    On SIGTERM the process's group gets the signal, and SIGKILL after a grace. Kubeflow's launcher hands no signal on,
    but Argo's executor, which started it, signals the whole group that this process is in.
    """
    with tempfile.TemporaryDirectory(prefix="sangam-step-") as folder:
        report = Path(folder) / "report.json"
        child = None
        try:
            with _signals_raised():
                child = subprocess.Popen(
                    [sys.executable, "-m", _CHILD, str(report), command.module, *command.arguments],
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
                code = child.wait()
        except _Asked as asked:
            return stopped(asked.number, step)
        finally:
            if child:
                end_group(child, grace_s=GRACE_S)
        said = Report.model_validate_json(report.read_text(encoding="utf-8")) if report.exists() else None
        return ending_of(code, said, step)


@contextmanager
def _signals_raised() -> Iterator[None]:
    """Turns a SIGTERM or SIGINT into an exception; later ones change nothing, so that the cleaning is done."""

    def ask(number: int, _frame: FrameType | None) -> None:
        for known in (signal.SIGTERM, signal.SIGINT):
            signal.signal(known, signal.SIG_IGN)
        raise _Asked(number)

    before = {known: signal.signal(known, ask) for known in (signal.SIGTERM, signal.SIGINT)}
    yield
    for known, handler in before.items():
        signal.signal(known, handler)
