"""The process that does the step's work: `python -m components.kfp_entrypoint.child REPORT MODULE ARGUMENTS`.

A process of its own, so that one that is killed, for memory perhaps, does not take along who tells of it.
"""

import runpy
import sys
from pathlib import Path

from components.kfp_entrypoint.ending import Report
from components.processes.stopping import GRACE_S, Stopped, StopSignals
from schemas.contracts.exit_codes import ExitCode
from schemas.errors import UserError


def main(report: Path, module: str, arguments: list[str]) -> int:
    """Runs a module as `python -m` does, and writes down what went wrong. Returns the exit code."""
    sys.argv = [module, *arguments]
    try:
        # Nothing interrupts the cleaning: whoever started this process kills what takes too long.
        with StopSignals(repeat_s=GRACE_S) as stop, stop.raised():
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    except Stopped as stopped:
        return stopped.exit_code
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else ExitCode.FAILED if leaving.code else ExitCode.DONE
    except Exception as error:
        mistake = _mistake_behind(error)
        text = str(mistake) if mistake else f"{type(error).__name__}: {str(error).strip()}"
        report.write_text(Report(is_mistake=mistake is not None, text=text).model_dump_json(), encoding="utf-8")
        if mistake is None:
            raise
        # No traceback: the text says it all, and whoever started this process shows it.
        return ExitCode.MISTAKE
    return ExitCode.DONE


def _mistake_behind(error: BaseException) -> UserError | None:
    found: BaseException | None = error
    while found is not None and not isinstance(found, UserError):
        found = found.__cause__ or found.__context__
    return found


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
