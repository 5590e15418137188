"""GPUs are the ranks'. Every other process hides them: TensorFlow takes all memory of each card that it sees."""

import os
from collections.abc import MutableMapping

_VARIABLE, _SAVED = "CUDA_VISIBLE_DEVICES", "SANGAM_VISIBLE_GPUS"
_ALL, _NONE = "all", "-1"


def hide(environ: MutableMapping[str, str] = os.environ) -> None:
    """Hides all GPUs from a process that has not used one, and from those that it starts."""
    environ.setdefault(_SAVED, environ.get(_VARIABLE, _ALL))
    environ[_VARIABLE] = _NONE


def show(environ: MutableMapping[str, str] = os.environ) -> None:
    """Shows the GPUs that were visible before `hide`."""
    before = environ.pop(_SAVED, None)
    if before == _ALL:
        del environ[_VARIABLE]
    elif before is not None:
        environ[_VARIABLE] = before
