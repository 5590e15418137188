"""Digests all code that a step's result depends on, for TFX's cache.

TFX's cache key contains the executor's name but not its code; components carry this digest as an exec property. Sources
are read, never imported: infra/adr/0026-keys-follow-imports.md.
"""

import ast
import functools
import hashlib
import importlib.metadata
import importlib.util
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import sangam
from sangam.components.caching.parts_digest import parts_digest
from sangam.schemas.errors import UserError

PROJECT = "sangam"
"""Package whose sources are digested; other packages count by version."""
LOCK = "requirements.runtime.lock"
_ROOT = Path(sangam.__file__).parents[1]
_LOCKED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==", re.MULTILINE)
_CPP = re.compile(r'"([a-z_]+\.(?:cc|h))"')
_DOTTED = re.compile(rf"{PROJECT}(?:\.[A-Za-z_]\w*)+")

Read = Callable[[str], bytes | None]
"""Reader of a file by its path below the package's folder; None if there is no such file."""


def code_digest(*entries: str, parts: Sequence[str] = ()) -> str:
    """Returns the sha256 over the sources that the entries depend on, and the versions of the libraries.

    Args:
        entries: dotted paths of modules or of definitions in them; empty for a step of TFX, which depends only on
            versions.
        parts: the spec's `parts`.
    """
    digest = hashlib.sha256(sources_digest(*entries).encode())
    for name, version in installed_versions().items():
        digest.update(f"{name}=={version}\n".encode())
    digest.update(parts_digest(parts).encode())
    return digest.hexdigest()


def read_source(path: str) -> bytes | None:
    """Reads a file of the project."""
    file = _ROOT / path
    return file.read_bytes() if file.is_file() else None


def sources_digest(*entries: str, read: Read = read_source) -> str:
    """Returns the sha256 over the paths and contents of the sources that the entries depend on."""
    digest, read = hashlib.sha256(), functools.cache(read)
    for path in source_files(*entries, read=read):
        source = read(path) or b""
        digest.update(f"{path} {len(source)}\n".encode())
        digest.update(source)
    return digest.hexdigest()


def source_files(*entries: str, read: Read = read_source) -> list[str]:
    """Returns the files of the project that the entries import or start, directly or through others, sorted.

    All imports count, including those in functions, but not those under `if TYPE_CHECKING:`. So do strings that are
    the dotted path of a module, such as the module of a process to start, and C++ sources that a string names. A
    parent package of a module counts with its own imports, but not with those in its functions.

    Raises:
        ModuleNotFoundError: for an entry that is not a module of the project.
    """
    read = functools.cache(read)
    files: dict[str, bool] = {}
    waiting = [_Reference(entry, is_text=True) for entry in entries]
    seen = set(waiting)
    for entry in entries:
        if not any(_module(part, read) for part in (entry, entry.rpartition(".")[0])):
            raise ModuleNotFoundError(f"no such module of the project (got '{entry}')", name=entry)
    while waiting:
        for path, is_target in _files_of(waiting.pop(), read):
            if files.get(path) or (path in files and not is_target):
                continue
            files[path] = is_target
            package = path.removesuffix("/__init__.py") if path.endswith("/__init__.py") else path.rpartition("/")[0]
            names = _names(read(path) or b"", package.replace("/", "."))
            new = {reference for reference in names if is_target or reference.at_import} - seen
            seen |= new
            waiting += new
    return sorted([*files, *_compiled(files, read)])


def _compiled(files: Iterable[str], read: Read) -> set[str]:
    """Returns the C++ sources beside modules that name them in a string."""
    named = ((path.rpartition("/")[0], name) for path in files for name in _CPP.findall((read(path) or b"").decode()))
    return {f"{folder}/{name}" for folder, name in named if read(f"{folder}/{name}") is not None}


@functools.cache
def installed_versions() -> dict[str, str]:
    """Returns the installed version of every distribution in the lock, by name; "" for one that is not installed.

    The lock is in the package. Distributions that are not in it do not count: they
    do not affect results.

    Raises:
        UserError: if the lock is missing.
    """
    lock = _ROOT / PROJECT / LOCK
    if not lock.is_file():
        raise UserError(
            f"{LOCK}: is missing in the package (got {lock}); copy it there: it lists the libraries that the "
            "results of the steps depend on"
        )
    return {name: _installed(name) for name in sorted(set(_LOCKED.findall(lock.read_text(encoding="utf-8"))))}


def _installed(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


@dataclass(frozen=True)
class _Reference:
    """A dotted name in a source.

    Attributes:
        name: a module, or a definition in one.
        at_import: whether the import of the source imports it.
        is_text: whether it is a string, which may start a package instead of importing it.
    """

    name: str
    at_import: bool = False
    is_text: bool = False


def _files_of(reference: _Reference, read: Read) -> Iterator[tuple[str, bool]]:
    """Yields the project's files for a name, and whether each is the target or only a parent package."""
    parts = reference.name.split(".")
    ends = [end for end in range(1, len(parts) + 1) if _module(".".join(parts[:end]), read)]
    for end in ends:
        name = ".".join(parts[:end])
        yield _module(name, read), end == ends[-1]
        if reference.is_text and end == ends[-1] and (main := _module(f"{name}.__main__", read)):
            yield main, True


def _module(name: str, read: Read) -> str:
    """Returns the file of a module; "" if it is not the project's."""
    if name.split(".")[0] != PROJECT:
        return ""
    path = name.replace(".", "/")
    return next((file for file in (f"{path}.py", f"{path}/__init__.py") if read(file) is not None), "")


@functools.lru_cache(maxsize=4096)
def _names(source: bytes, package: str) -> tuple[_Reference, ...]:
    """Returns every dotted name of the project in a source.

    Args:
        source: source text of a module.
        package: package of the module.
    """
    return tuple(dict.fromkeys(_walk(ast.parse(source), package, at_import=True)))


def _walk(node: ast.AST, package: str, *, at_import: bool) -> Iterator[_Reference]:
    match node:
        case ast.Import():
            yield from (_Reference(alias.name, at_import) for alias in node.names)
        case ast.ImportFrom():
            module = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            yield from (_Reference(f"{module}.{alias.name}", at_import) for alias in node.names)
        case ast.Constant(value=str(text)) if _DOTTED.fullmatch(text):
            yield _Reference(text, is_text=True)
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            for other in node.orelse:
                yield from _walk(other, package, at_import=at_import)
        case _:
            inside = at_import and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            for child in ast.iter_child_nodes(node):
                yield from _walk(child, package, at_import=inside)
