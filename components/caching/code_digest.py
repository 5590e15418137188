"""A digest of all code that a step's result depends on, so that the cache knows when that has changed.

TFX's cache key holds the executor's name but not its code; components carry this digest as an exec property. It is read
from the sources, none of which is imported: infra/adr/0026-keys-follow-imports.md.
"""

import ast
import functools
import hashlib
import importlib.metadata
import importlib.util
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from schemas.errors import UserError

PROJECT = ("schemas", "components", "trainer_module", "pipelines")
"""The packages whose sources count; of all others, the installed version does."""
LOCK = "requirements.runtime.lock"
_ROOT = Path(__file__).resolve().parents[2]
_LOCKED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==", re.MULTILINE)
_DOTTED = re.compile(rf"(?:{'|'.join(PROJECT)})(?:\.[A-Za-z_]\w*)*")

Read = Callable[[str], bytes | None]
"""From a path below the folder of the packages to the file's bytes; None if there is no such file."""


def code_digest(*entries: str) -> str:
    """Returns the sha256 over the sources that the entries lead to, and the versions of the libraries.

    Args:
        entries: dotted paths of modules, or of what a module holds, as a step's executor; none for a step that is
            wholly TFX's, which depends on versions alone.
    """
    digest = hashlib.sha256(sources_digest(*entries).encode())
    for name, version in installed_versions().items():
        digest.update(f"{name}=={version}\n".encode())
    return digest.hexdigest()


def read_source(path: str) -> bytes | None:
    """Reads a file of the project."""
    file = _ROOT / path
    return file.read_bytes() if file.is_file() else None


def sources_digest(*entries: str, read: Read = read_source) -> str:
    """Returns the sha256 over the paths and the bytes of the sources that the entries lead to."""
    digest, read = hashlib.sha256(), functools.cache(read)
    for path in source_files(*entries, read=read):
        source = read(path) or b""
        digest.update(f"{path} {len(source)}\n".encode())
        digest.update(source)
    return digest.hexdigest()


def source_files(*entries: str, read: Read = read_source) -> list[str]:
    """Returns the files of the project that the entries import or start, directly or through others, sorted.

    An import counts wherever it stands, in a function too, but under `if TYPE_CHECKING:`. So does a text that is the
    dotted path of a module, such as that of a process to start. Of a package that is only on the way to a module, what
    runs when it is imported counts, and not what its functions would import.

    Raises:
        ModuleNotFoundError: for an entry that is none of the project's modules.
    """
    read = functools.cache(read)
    found: dict[str, bool] = {}
    waiting = [_Named(entry, is_text=True) for entry in entries]
    asked = set(waiting)
    for entry in entries:
        if not any(_module(part, read) for part in (entry, entry.rpartition(".")[0])):
            raise ModuleNotFoundError(f"no such module of the project (got '{entry}')", name=entry)
    while waiting:
        for path, is_meant in _files_of(waiting.pop(), read):
            if found.get(path) or (path in found and not is_meant):
                continue
            found[path] = is_meant
            package = path.removesuffix("/__init__.py") if path.endswith("/__init__.py") else path.rpartition("/")[0]
            names = _names(read(path) or b"", package.replace("/", "."))
            new = {named for named in names if is_meant or named.at_import} - asked
            asked |= new
            waiting += new
    return sorted(found)


@functools.cache
def installed_versions() -> dict[str, str]:
    """Returns the installed version of every distribution that the lock names, by name; "" for one not installed.

    The lock lies beside the packages, in a checkout as in an image, and says which distributions count: a tool that
    somebody installs beside them changes no result.

    Raises:
        UserError: if it is not there.
    """
    lock = _ROOT / LOCK
    if not lock.is_file():
        raise UserError(
            f"{LOCK}: is missing beside the packages (got {lock}); copy it there: it names the libraries that the "
            "results of the steps depend on"
        )
    return {name: _installed(name) for name in sorted(set(_LOCKED.findall(lock.read_text(encoding="utf-8"))))}


def _installed(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


@dataclass(frozen=True)
class _Named:
    """A dotted name in a source.

    Attributes:
        name: of a module, perhaps with something that it holds.
        at_import: it is imported as soon as the source is.
        is_text: it stands there as a text: a package so named may be run, not only imported.
    """

    name: str
    at_import: bool = False
    is_text: bool = False


def _files_of(named: _Named, read: Read) -> Iterator[tuple[str, bool]]:
    """Yields the files of a name, and of each whether it is meant or only on the way; none for what is not ours."""
    parts = named.name.split(".")
    ends = [end for end in range(1, len(parts) + 1) if _module(".".join(parts[:end]), read)]
    for end in ends:
        name = ".".join(parts[:end])
        yield _module(name, read), end == ends[-1]
        if named.is_text and end == ends[-1] and (main := _module(f"{name}.__main__", read)):
            yield main, True


def _module(name: str, read: Read) -> str:
    """Returns the file of a module; "" if it is none of the project's."""
    if name.split(".")[0] not in PROJECT:
        return ""
    path = name.replace(".", "/")
    return next((file for file in (f"{path}.py", f"{path}/__init__.py") if read(file) is not None), "")


@functools.lru_cache(maxsize=4096)
def _names(source: bytes, package: str) -> tuple[_Named, ...]:
    """Returns every dotted name of the project in a source.

    Args:
        source: of a module.
        package: that the module is in.
    """
    return tuple(dict.fromkeys(_walk(ast.parse(source), package, at_import=True)))


def _walk(node: ast.AST, package: str, *, at_import: bool) -> Iterator[_Named]:
    match node:
        case ast.Import():
            yield from (_Named(alias.name, at_import) for alias in node.names)
        case ast.ImportFrom():
            module = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            yield from (_Named(f"{module}.{alias.name}", at_import) for alias in node.names)
        case ast.Constant(value=str(text)) if _DOTTED.fullmatch(text):
            yield _Named(text, is_text=True)
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            for other in node.orelse:
                yield from _walk(other, package, at_import=at_import)
        case _:
            inside = at_import and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            for child in ast.iter_child_nodes(node):
                yield from _walk(child, package, at_import=inside)
