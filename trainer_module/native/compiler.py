"""Compiles libraries once, into Python's own folder: when an image is built, or at first use.

A library ends with a seal of its length and sha256, which linkers ignore: a truncated one would end the process with
SIGBUS when it is used.
"""

import contextlib
import hashlib
import logging
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sangam.schemas.errors import UserError
from sangam.schemas.host.files import sync

_LOG = logging.getLogger(__name__)
_COMPILE_S = 120.0
_SEAL = b"\nsealed %016d %s\n"
_SEAL_BYTES = len(_SEAL % (0, b"0" * 64))


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
    """Returns the path of a shared library; compiles it if it is missing or damaged.

    Args:
        name: prefix of the file name; a digest of `made_of` follows.
        compiler: compiler of its sources.
        made_of: sources, options and versions; any change gives another library.
        arguments: returns the compiler's arguments, given the output file.

    Raises:
        UserError: the library is missing or damaged, and cannot be compiled.
    """
    digest = hashlib.sha256(b"/".join([*made_of, _SEAL])).hexdigest()[:12]
    path = Path(sys.prefix, "lib", f"{name}-{digest}.so")
    if _is_sealed(path):
        return path
    lack = "damaged" if path.exists() else "missing"
    if lack == "damaged":
        _LOG.warning("event=library_damaged path=%s it is compiled again", path)
    program = next(filter(None, map(shutil.which, compiler.names)), None)
    if program is None:
        got = "got neither {} nor {}".format(*compiler.names)
        raise UserError(
            f"{path}: {lack}, and no {compiler.language} compiler to build it ({got}); install {compiler.package}"
        )
    # A process id is not unique: containers that share the folder have the same ones.
    new = path.with_name(f".tmp-{secrets.token_hex(8)}-{path.name}")
    command = [program, "-shared", "-fPIC", *arguments(new)]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=_COMPILE_S)
        _seal(new)
        new.replace(path)
    except (OSError, subprocess.SubprocessError) as error:
        told = getattr(error, "stderr", None) or error
        raise UserError(
            f"{path}: {lack}, and cannot be compiled (got: {told}); fix {program}, or the permissions of that folder"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)
    return path


def _seal(library: Path) -> None:
    content = library.read_bytes()
    with library.open("ab") as file:
        file.write(_seal_of(content))
    sync(library)


def _is_sealed(library: Path) -> bool:
    try:
        content = library.read_bytes()
    except OSError:
        return False
    return content[-_SEAL_BYTES:] == _seal_of(content[:-_SEAL_BYTES])


def _seal_of(content: bytes) -> bytes:
    return _SEAL % (len(content), hashlib.sha256(content).hexdigest().encode())
