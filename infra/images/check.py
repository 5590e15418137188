"""Says what is wrong with images that were built twice: `python3 infra/images/check.py FIRST SECOND`.

Both are folders of OCI archives.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import archive

NAMES = ("pipeline", "trainer")
LABELS = ("title", "version", "revision", "created", "licenses")
_PACKAGES = "opt/sangam/lib/python3.11/site-packages"
_WRITABLE_BY_OTHERS = 0o002
_SHOWN = 20


def different(name: str, first: archive.Image, second: archive.Image) -> Iterator[str]:
    """Yields how two builds of one commit differ."""
    if first.digest == second.digest:
        return
    yield f"{name}: two builds of one commit are two images (got {first.digest} and {second.digest})"
    paths = sorted(first.files.keys() | second.files.keys())
    changed = [path for path in paths if first.files.get(path) != second.files.get(path)]
    for path in changed[:_SHOWN]:
        yield f"{name}: /{path}: differs (got {first.files.get(path)} and {second.files.get(path)})"
    yield f"{name}: files that differ: {len(changed)} of {len(paths)}"


def problems(name: str, image: archive.Image) -> Iterator[str]:
    """Yields what an image must not have, or lacks."""
    ours = {path: file for path, file in image.files.items() if path.startswith("opt/sangam/")}
    for path, file in ours.items():
        if file.kind != "sym" and file.mode & _WRITABLE_BY_OTHERS:
            yield f"{name}: /{path}: anybody may write to it (got mode {file.mode:o})"
        if file.owner != (0, 0):
            yield f"{name}: /{path}: must be root's (got {file.owner})"
    for path in (f"{_PACKAGES}/tests", f"{_PACKAGES}/tensorflow/include", "opt/sangam/.lock", "etc/pip.conf"):
        if path in image.files:
            yield f"{name}: /{path}: must not be there"
    for package in ("sangam", "sangam/schemas", "sangam/trainer_module", "tensorflow", "tfx"):
        if f"{_PACKAGES}/{package}/__pycache__/__init__.cpython-311.pyc" not in ours:
            yield f"{name}: /{_PACKAGES}/{package}: is not compiled"
    config = image.config["config"]
    if config.get("Cmd") != ["sangam", "--help"] or config.get("User") != "10001:10001":
        yield f"{name}: must print help as 10001:10001 (got {config.get('Cmd')} as {config.get('User')})"
    for label in LABELS:
        if not (config.get("Labels") or {}).get(f"org.opencontainers.image.{label}"):
            yield f"{name}: lacks the label {label}"


def main(first: Path, second: Path) -> None:
    """Prints sizes, layers and problems; ends with 1 if there are problems."""
    found: list[str] = []
    packages = set()
    for name in NAMES:
        image, other = (archive.read(folder / f"sangam-{name}.oci.tar") for folder in (first, second))
        found += [*different(name, image, other), *problems(name, image)]
        packages.add(max(image.layers, key=lambda layer: layer[1])[0])
        unpacked = sum(file.bytes for path, file in image.files.items() if path.startswith("opt/sangam/"))
        print(f"{name}: {image.digest}, {len(image.files)} files, /opt/sangam has {unpacked / 1e6:.0f} MB")
        for digest, size in image.layers:
            print(f"  layer {digest}: {size / 1e6:.1f} MB compressed")
    if len(packages) > 1:
        found.append(f"pipeline and trainer: must share the layer of the packages (got {sorted(packages)})")
    print("\n".join(found) or "both images are as they have to be")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
