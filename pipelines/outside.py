"""The check of parts of others before anything runs, in processes of its own; a spec without some starts none.

A process that has computed with TensorFlow cannot be forked, and the steps of a run are.
"""

import os
import subprocess
import sys
from importlib.util import find_spec

from sangam.pipelines.console import QUIET_ENVIRONMENT
from sangam.schemas.checks.parts import outside_parts
from sangam.schemas.errors import UserError
from sangam.schemas.spec import RankerSpec, Spec

_TRIALS, _TRACER = "sangam.components.trials", "sangam.trainer_module.tracing"
_LIMIT_S = 300


def check_parts(spec: Spec) -> None:
    """Tries the parts of others once: those of the trainer are traced, all others called on a few values.

    Raises:
        UserError: one is wrong, or could not be exported; with its file and line.
    """
    ranker = spec.ranker()
    of_trainer, every = (len(list(outside_parts(each))) for each in (ranker, spec))
    if every > of_trainer:
        _check(_TRIALS, spec)
    if of_trainer:
        _check(_TRACER, ranker)


def layers_here(ranker: RankerSpec) -> str:
    """Returns which code would compute the layers in a training on this machine, and why, as one line.

    Raises:
        UserError: a part of others is wrong, or the trainer's operations cannot be compiled here.
    """
    return _check(_TRACER, ranker, "layers").strip()


def _check(module: str, spec: RankerSpec, *arguments: str) -> str:
    """Runs a module on a spec; returns what it prints."""
    if find_spec("tensorflow") is None:
        raise ModuleNotFoundError("TensorFlow builds the graphs", name="tensorflow")  # Told by the command line.
    environment = {**os.environ, **QUIET_ENVIRONMENT, "TF_CPP_MIN_LOG_LEVEL": "3", "TF_USE_LEGACY_KERAS": "1"}
    command = [sys.executable, "-W", "ignore", "-m", module, *arguments]
    try:
        done = subprocess.run(
            command,
            input=spec.model_dump_json(),
            env=environment,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UserError(
            f"parts: were not tried within {_LIMIT_S} s (got {', '.join(spec.parts)}); look for a loop in Python over "
            "examples: a method is called once, to build a graph"
        ) from None
    if done.returncode:
        raise UserError(done.stderr.strip().removeprefix("UserError: ") or f"parts: ended with code {done.returncode}")
    return done.stdout
