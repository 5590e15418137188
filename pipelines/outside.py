"""The check of parts of others before anything runs, in a process of its own; a spec without some starts none.

A process that has computed with TensorFlow cannot be forked, and the steps of a run are.
"""

import os
import subprocess
import sys

from sangam.pipelines.console import QUIET_ENVIRONMENT
from sangam.schemas.checks.parts import outside_parts
from sangam.schemas.errors import UserError
from sangam.schemas.spec import Spec

_TRACER = "sangam.trainer_module.tracing"
_LIMIT_S = 300


def check_parts(spec: Spec) -> None:
    """Traces the parts of others once.

    Raises:
        UserError: one is wrong, or could not be exported; with its file and line.
    """
    if not any(True for _ in outside_parts(spec)):
        return
    environment = {**os.environ, **QUIET_ENVIRONMENT, "TF_CPP_MIN_LOG_LEVEL": "3", "TF_USE_LEGACY_KERAS": "1"}
    command = [sys.executable, "-W", "ignore", "-m", _TRACER]
    ranker = spec.ranker().model_dump_json()
    try:
        done = subprocess.run(
            command, input=ranker, env=environment, capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise UserError(
            f"parts: were not traced within {_LIMIT_S} s (got {', '.join(spec.parts)}); look for a loop in Python over "
            "examples: a method is called once, to build a graph"
        ) from None
    if done.returncode:
        raise UserError(done.stderr.strip().removeprefix("UserError: ") or f"parts: ended with code {done.returncode}")
