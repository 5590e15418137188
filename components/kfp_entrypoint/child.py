"""The process that runs the step: `python -m sangam.components.kfp_entrypoint.child REPORT MODULE ARGUMENTS`.

It is separate from its parent, so that the parent can still send an alert when this process is killed, for example for
its memory.
"""

import logging
import runpy
import sys
from pathlib import Path

from sangam.components.kfp_entrypoint.ending import Report
from sangam.components.processes.stopping import GRACE_S, Stopped, StopSignals
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.errors import UserError


def main(report: Path, module: str, arguments: list[str]) -> int:
    """Runs a module as `python -m` does, and writes a report of its error, if any. Returns the exit code."""
    sys.argv = [module, *arguments]
    for name in ("httpx", "httpcore"):
        # TFX logs at INFO, and these log a line for every request: several each second for a training in pods.
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        # Nothing interrupts the cleanup: the parent kills a process that takes too long.
        with StopSignals(repeat_s=GRACE_S) as stop, stop.raised():
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    except Stopped as stopped:
        return stopped.exit_code
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else ExitCode.FAILED if leaving.code else ExitCode.DONE
    except Exception as error:
        mistake = _user_error_of(error)
        text = str(mistake) if mistake else f"{type(error).__name__}: {str(error).strip()}"
        report.write_text(Report(is_mistake=mistake is not None, text=text).model_dump_json(), encoding="utf-8")
        if mistake is None:
            raise
        # No traceback: the parent prints the message, which is enough.
        return ExitCode.MISTAKE
    return ExitCode.DONE


def _user_error_of(error: BaseException) -> UserError | None:
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, UserError):
        cause = cause.__cause__ or cause.__context__
    return cause


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
