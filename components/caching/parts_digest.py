"""Digests the code of parts of others: their modules, and what those import that is theirs too.

Modules are found, never imported. A module counts as theirs if it is of the same top package as a part or lies in a
folder beside a spec; of another distribution that is not in the lock, the version counts.
"""

import ast
import hashlib
import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from sangam.schemas.parts.importing import folders, module_of


def parts_digest(names: Sequence[str]) -> str:
    """Returns the sha256 over the sources behind `parts:` of a spec; "" without parts.

    Args:
        names: modules or entry points. They have been imported: the spec that names them was read.
    """
    if not names:
        return ""
    digest = hashlib.sha256()
    for name, source in sorted(_sources([module_of(name) for name in names]).items()):
        digest.update(f"{name} {len(source)}\n".encode() + source)
    return digest.hexdigest()


def _sources(modules: Sequence[str]) -> dict[str, bytes]:
    """Returns the source of each module of theirs, or the version of a distribution, by name."""
    tops, found = {module.split(".")[0] for module in modules}, dict[str, bytes]()
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        file = _file_of(name)
        if file is None:
            continue
        if name.split(".")[0] in tops or any(file.is_relative_to(folder) for folder in folders()):
            found[name] = file.read_bytes()
            waiting += _imported(found[name], name if file.name == "__init__.py" else name.rpartition(".")[0])
        elif version := _version_of(name):
            found[name.split(".")[0]] = version
    return found


def _file_of(name: str) -> Path | None:
    """Returns the source of a module; None if it is no module, has no source, or is the product's."""
    if name.split(".")[0] == "sangam" or name.split(".")[0] in sys.stdlib_module_names:
        return None
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None  # A definition in a module: its module is found by itself.
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


def _version_of(name: str) -> bytes:
    names = importlib.metadata.packages_distributions().get(name.split(".")[0], [])
    return " ".join(f"{each}=={importlib.metadata.version(each)}" for each in sorted(set(names))).encode()


def _imported(source: bytes, package: str) -> Iterator[str]:
    """Yields every dotted name that a source imports, wherever in it, and the packages above."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import():
                names = [alias.name for alias in node.names]
            case ast.ImportFrom():
                module = importlib.util.resolve_name("." * node.level + (node.module or ""), package or None)
                names = [module, *(f"{module}.{alias.name}" for alias in node.names)]
            case _:
                continue
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))
