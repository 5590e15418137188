"""Compiles and loads the operations of this package: `python -m sangam.trainer_module.native.library`.

Compilation takes some seconds, see `compiler`.
"""

import ctypes
import functools
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sangam.schemas.errors import UserError
from sangam.trainer_module.native.compiler import CPP, compiled

_FOLDER = Path(__file__).parent
# By name: so the keys of steps follow them (`components.caching.code_digest`).
_SOURCES = (
    *("cuts.cc", "dense.cc", "dropout.cc", "inputs.cc", "layers.cc", "messages.cc", "rows.cc", "shared_memory.cc"),
    *("sockets.cc", "usage.cc"),
)
_HEADERS = (
    *("kernel.h", "messages.h", "threads.h", "products.h", "float_products.h", "half_products.h", "half_units.h"),
    "transpose.h",
)
_OPTIONS = (
    *("-std=c++17", "-O3", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math", "-fvisibility=hidden"),
    "-ffp-contract=off",  # Round a * b + c as TensorFlow's operations do.
)


def library() -> Path:
    """Returns the compiled library.

    Raises:
        UserError: it is missing and cannot be compiled.
    """
    content = [(_FOLDER / name).read_bytes() for name in (*_SOURCES, *_HEADERS)]
    made_of = [*content, " ".join(_OPTIONS).encode(), version("tensorflow").encode()]
    return compiled("sangam-native", CPP, made_of, _arguments)


def _arguments(output: Path) -> list[str]:
    tensorflow = _folder_of_tensorflow()
    places = ["-I", str(_FOLDER.parent.parent), "-I", str(tensorflow / "include"), f"-L{tensorflow}"]
    sources = [str(_FOLDER / name) for name in _SOURCES]
    return [*_OPTIONS, *places, "-o", str(output), *sources, "-l:libtensorflow_framework.so.2"]


@functools.cache
def operations() -> Any:
    """Returns the module of operations.

    Raises:
        UserError: see `library`.
    """
    import tensorflow as tf  # Compilation does not need it.

    return tf.load_op_library(str(library()))


@functools.cache
def functions() -> ctypes.CDLL:
    """Returns the functions that are not TensorFlow operations; they share state with the operations."""
    operations()
    return ctypes.CDLL(str(library()))


def _folder_of_tensorflow() -> Path:
    spec = find_spec("tensorflow")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


if __name__ == "__main__":
    try:
        print(library())
    except UserError as problem:
        sys.exit(str(problem))
