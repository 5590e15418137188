"""Compiles and loads the operations of this package: `python -m trainer_module.native.library`.

Compiled once, in two seconds, into Python's own folder: when an image is built, or when it is first needed.
"""

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from schemas.errors import UserError

_FOLDER = Path(__file__).parent
_SOURCES = ("dense.cc", "inputs.cc", "layers.cc", "rows.cc", "shared_memory.cc")
_HEADERS = ("kernel.h", "products.h", "float_products.h", "half_products.h", "transpose.h")
_OPTIONS = (
    *("-std=c++17", "-O3", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math", "-fvisibility=hidden"),
    "-ffp-contract=off",  # a * b + c is rounded as TensorFlow's operations round it.
)
_COMPILE_S = 120.0


def library() -> Path:
    """Returns the compiled library.

    Raises:
        UserError: it is missing and cannot be compiled.
    """
    content = [(_FOLDER / name).read_bytes() for name in (*_SOURCES, *_HEADERS)]
    made_of = [*content, " ".join(_OPTIONS).encode(), version("tensorflow").encode()]
    path = Path(sys.prefix, "lib", f"sangam-native-{hashlib.sha256(b'/'.join(made_of)).hexdigest()[:12]}.so")
    if path.exists():
        return path
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        raise UserError(f"{path}: missing, and no C++ compiler to build it (got neither g++ nor c++); install g++")
    new = path.with_suffix(f".{os.getpid()}")
    tensorflow = _folder_of_tensorflow()
    places = ["-I", str(_FOLDER.parent.parent), "-I", str(tensorflow / "include"), f"-L{tensorflow}"]
    command = [
        compiler,
        *_OPTIONS,
        "-shared",
        "-fPIC",
        *places,
        "-o",
        str(new),
        *(str(_FOLDER / name) for name in _SOURCES),
    ]
    try:
        subprocess.run(
            [*command, "-l:libtensorflow_framework.so.2"],
            check=True,
            capture_output=True,
            text=True,
            timeout=_COMPILE_S,
        )
        new.rename(path)
    except (OSError, subprocess.SubprocessError) as error:
        told = getattr(error, "stderr", None) or error
        raise UserError(
            f"{path}: cannot be compiled (got: {told}); fix {compiler}, or the permissions of that folder"
        ) from error
    return path


@functools.cache
def operations() -> Any:
    """Returns the module of operations.

    Raises:
        UserError: see `library`.
    """
    import tensorflow as tf  # Not to compile.

    return tf.load_op_library(str(library()))


@functools.cache
def functions() -> ctypes.CDLL:
    """Returns the functions that are no operations; they share their state with these."""
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
