"""A process that is killed between two moves of files."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def killed_at_move(number: int, *, moves_folders: bool = True) -> Iterator[None]:
    """Has what runs within be killed in the n-th `os.rename`, from 0, and fails if it is not.

    Args:
        number: number of the move.
        moves_folders: whether the file system can rename folders; otherwise files alone count.
    """
    real, left = os.rename, [number]

    def rename(source: Path, target: Path) -> None:
        if not moves_folders and Path(source).is_dir():
            raise OSError(errno.EXDEV, "no renames of folders")
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        real(source, target)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "rename", rename)
        with pytest.raises(KeyboardInterrupt):
            yield
