"""The check of parts of others before anything runs; it loads NumPy, or starts TensorFlow, only for a spec that has some.

A process that has computed with TensorFlow cannot be forked, and the steps of a run are.
"""

import os
import subprocess
import sys

from sangam.pipelines.console import QUIET_ENVIRONMENT
from sangam.schemas.checks.parts import outside_parts
from sangam.schemas.errors import UserError
from sangam.schemas.spec import RankerSpec, Spec

_TRACER = "sangam.trainer_module.tracing"
_LIMIT_S = 300


def check_parts(spec: Spec) -> None:
    """Tries the parts of others once, and traces those of the trainer.

    Raises:
        UserError: one is wrong, or could not be exported; with its file and line.
    """
    if any(True for _ in outside_parts(spec)):
        from sangam.components.trials import try_parts

        try_parts(spec)
    ranker = spec.ranker()
    if any(True for _ in outside_parts(ranker)):
        _trace(ranker)


def _trace(ranker: RankerSpec) -> None:
    """Traces the parts of the trainer in a process of its own."""
    environment = {**os.environ, **QUIET_ENVIRONMENT, "TF_CPP_MIN_LOG_LEVEL": "3", "TF_USE_LEGACY_KERAS": "1"}
    command = [sys.executable, "-W", "ignore", "-m", _TRACER]
    read = ranker.model_dump_json()
    try:
        done = subprocess.run(
            command, input=read, env=environment, capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise UserError(
            f"parts: were not traced within {_LIMIT_S} s (got {', '.join(ranker.parts)}); look for a loop in Python "
            "over examples: a method is called once, to build a graph"
        ) from None
    if done.returncode:
        raise UserError(done.stderr.strip().removeprefix("UserError: ") or f"parts: ended with code {done.returncode}")
