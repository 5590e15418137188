"""Runs the step's process to its end, and ends it when a signal stops this one."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from sangam.components.kfp_entrypoint.ending import Ending, Report, ending_of, stopped, too_long
from sangam.components.kfp_entrypoint.invocation import Command
from sangam.components.processes.group import ProcessGroup
from sangam.components.processes.stopping import Stopped, StopSignals
from sangam.schemas.host.cgroup import OomWatch

GRACE_S = 20.0
"""Seconds from SIGTERM to SIGKILL: less than a pod's 30 s, and more than the trainer's processes get."""
_CHILD = "sangam.components.kfp_entrypoint.child"


def run(command: Command, step: Callable[[], str], stop: StopSignals, timeout_s: float | None) -> Ending:
    """Runs the command in a separate process and returns its ending.

    On SIGTERM the process's group gets the signal, and SIGKILL after a grace period. Kubeflow's launcher forwards no
    signals, but Argo's executor, which started it, signals the whole group of this process.

    Args:
        command: command of the step.
        step: returns the name of the step that runs.
        stop: signal handler that the caller has entered.
        timeout_s: seconds after which the process is ended, as by SIGTERM; None: no limit.
    """
    with tempfile.TemporaryDirectory(prefix="sangam-step-") as folder:
        report = Path(folder) / "report.json"
        child, oom_watch = None, OomWatch()
        try:
            with stop.raised():
                child = ProcessGroup([_CHILD, str(report), command.module, *command.arguments], grace_s=GRACE_S)
                code = child.wait() if timeout_s is None else child.wait_for(timeout_s)
        except Stopped as asked:
            return stopped(asked.signum, step())
        finally:
            if child:
                child.end()
        if code is None:
            return too_long(step(), timeout_s or 0.0)
        said = Report.model_validate_json(report.read_text(encoding="utf-8")) if report.exists() else None
        return ending_of(code, said, step(), oom_watch.out_of_memory())
