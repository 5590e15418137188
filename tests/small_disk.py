"""A small disk, which fills up: a file system in memory, where the process may mount one."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, size: str, *, is_read_only: bool = False) -> Iterator[Path]:
    """Mounts a disk on a folder, and yields the folder; skips the test without the right to."""
    folder.mkdir(parents=True, exist_ok=True)
    options = f"size={size}" + (",ro" if is_read_only else "")
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    mounted = subprocess.run(command, check=False, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"needs the right to mount a small disk: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Fills a small disk to its last byte; returns the file to remove."""
    file = folder / "filler"
    with file.open("wb", buffering=0) as opened:
        try:
            while True:
                opened.write(bytes(4096))
        except OSError:
            return file
