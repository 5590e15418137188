"""Compiles in a separate process: TFX takes most of a gigabyte, which a backfill would otherwise hold for days.

The process is `python -m sangam.pipelines.kubeflow.apart REQUEST COMPILED PROBLEM`.
"""

import dataclasses
import json
import sys
import tempfile
from pathlib import Path

from sangam.components.processes.group import ProcessGroup
from sangam.pipelines.console import quieten
from sangam.pipelines.kubeflow.target import Target
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.errors import UserError
from sangam.schemas.host.files import tail
from sangam.schemas.spec import Spec

_TAIL_LINES = 30


def compile_apart(spec: Spec, target: Target) -> str:
    """Returns the compiled text.

    Raises:
        UserError: the target does not support a setting of the spec.
        RuntimeError: the process failed; its log is in the text.
    """
    with tempfile.TemporaryDirectory(prefix="sangam-compile-") as folder:
        request, compiled, problem, log = (
            Path(folder) / name for name in ("request.json", "compiled", "problem", "log.txt")
        )
        # Unset fields stay unset: they distinguish a step's own settings from those of all steps.
        settings = json.loads(spec.model_dump_json(exclude_unset=True))
        request.write_text(json.dumps({"spec": settings, "target": dataclasses.asdict(target)}), encoding="utf-8")
        words = [__name__, *map(str, (request, compiled, problem))]
        with ProcessGroup(words, log=log, ends_with_parent=True) as process:
            code = process.wait()
        if code == ExitCode.MISTAKE and problem.exists():
            raise UserError(problem.read_text(encoding="utf-8"))
        if code != ExitCode.DONE:
            raise RuntimeError(f"the compiler ended with code {code}:\n{tail(log, _TAIL_LINES)}")
        return compiled.read_text(encoding="utf-8")


def main(request: Path, compiled: Path, problem: Path) -> int:
    """Compiles the spec of a request file, and returns the exit code."""
    quieten()
    from sangam.pipelines.kubeflow.compile import compile_pipeline

    asked = json.loads(request.read_text(encoding="utf-8"))
    spec, target = Spec.model_validate_json(json.dumps(asked["spec"])), Target(**asked["target"])
    try:
        text = compile_pipeline(spec, target)
    except UserError as error:
        problem.write_text(str(error), encoding="utf-8")
        return ExitCode.MISTAKE
    compiled.write_text(text, encoding="utf-8")
    return ExitCode.DONE


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
