"""Compiles libraries once, into Python's own folder: when an image is built, or at first use."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from schemas.errors import UserError

_COMPILE_S = 120.0


@dataclass(frozen=True)
class Compiler:
    """A compiler.

    Attributes:
        language: the compiled language.
        names: program names, the preferred one first.
        package: the package that contains it.
    """

    language: str
    names: tuple[str, str]
    package: str


C = Compiler("C", ("cc", "gcc"), "gcc")
CPP = Compiler("C++", ("g++", "c++"), "g++")


def compiled(name: str, compiler: Compiler, made_of: Sequence[bytes], arguments: Callable[[Path], list[str]]) -> Path:
    """Returns the path of a shared library; compiles it if missing.

    Args:
        name: prefix of the file name; a digest of `made_of` follows.
        compiler: compiler of its sources.
        made_of: sources, options and versions; any change gives another library.
        arguments: returns the compiler's arguments, given the output file.

    Raises:
        UserError: the library is missing and cannot be compiled.
    """
    digest = hashlib.sha256(b"/".join(made_of)).hexdigest()[:12]
    path = Path(sys.prefix, "lib", f"{name}-{digest}.so")
    if path.exists():
        return path
    program = next(filter(None, map(shutil.which, compiler.names)), None)
    if program is None:
        got = "got neither {} nor {}".format(*compiler.names)
        raise UserError(
            f"{path}: missing, and no {compiler.language} compiler to build it ({got}); install {compiler.package}"
        )
    new = path.with_suffix(f".{os.getpid()}")
    command = [program, "-shared", "-fPIC", *arguments(new)]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=_COMPILE_S)
        new.rename(path)
    except (OSError, subprocess.SubprocessError) as error:
        told = getattr(error, "stderr", None) or error
        raise UserError(
            f"{path}: cannot be compiled (got: {told}); fix {program}, or the permissions of that folder"
        ) from error
    return path
