"""A digest of source code, so that TFX's cache knows when a component changed.

TFX's cache key holds the executor's name but not its code; components carry this digest as an exec property.
"""

import hashlib
import importlib.util
from pathlib import Path


def source_digest(*packages: str) -> str:
    """Returns the sha256 over the relative paths and the bytes of all .py files of packages or modules.

    Args:
        packages: dotted names, for example "schemas" or "components.example_gen"; their order does not matter.

    Raises:
        ModuleNotFoundError: if there is no such package or module.
    """
    digest = hashlib.sha256()
    for package in sorted(set(packages)):
        for relative, path in _sources(package):
            content = path.read_bytes()
            digest.update(f"{package}/{relative} {len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()


def _sources(package: str) -> list[tuple[str, Path]]:
    found = importlib.util.find_spec(package)
    if found is None:
        raise ModuleNotFoundError(f"no such package (got '{package}')", name=package)
    if found.submodule_search_locations is None:
        path = Path(str(found.origin))
        return [(path.name, path)]
    folders = [Path(location) for location in found.submodule_search_locations]
    return sorted((path.relative_to(folder).as_posix(), path) for folder in folders for path in folder.rglob("*.py"))
