"""The process that does the step's work: `python -m components.kfp_entrypoint.child REPORT MODULE ARGUMENTS`.

A process of its own, so that one that is killed, for memory perhaps, does not take along who tells of it.
"""

import runpy
import signal
import sys
from pathlib import Path
from types import FrameType

from components.kfp_entrypoint.ending import Report
from schemas.contracts.exit_codes import ExitCode, of_signal
from schemas.errors import UserError


def main(report: Path, module: str, arguments: list[str]) -> int:
    """Runs a module as `python -m` does, and writes down what went wrong. Returns the exit code."""
    signal.signal(signal.SIGTERM, _leave)
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
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


def _leave(number: int, _frame: FrameType | None) -> None:
    """Leaves through every `finally`: what the step has started must not outlive it."""
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(of_signal(number))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
