"""The folder of predictions, on this machine or on an object store: a file is there whole or not at all."""

import contextlib
import os
import secrets
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from sangam.components import object_stores
from sangam.components.logs.files.light_storage import open_light
from sangam.schemas.errors import UserError
from sangam.schemas.host.files import sync

_ASIDE = ".sangam-predict-"
"""Beginning of the names of files that are being written; no other file is removed."""
ERRORS = "_errors"
"""Folder of the reasons for which files could not be scored, one for each, while a job runs."""


class Output:
    """A folder of predictions.

    Attributes:
        uri: path, or address on a store.
    """

    def __init__(self, uri: str):
        self.uri = uri.rstrip("/") or "/"
        self._is_stored = object_stores.is_stored(uri)

    def names(self) -> set[str]:
        """Returns the paths of the files in it, relative to it, without files that are being written."""
        if self._is_stored:
            found = [each.uri.removeprefix(f"{self.uri}/") for each in object_stores.listed(self.uri, recursive=True)]
        else:
            files = (path for path in Path(self.uri).rglob("*") if path.is_file())
            found = [path.relative_to(self.uri).as_posix() for path in files]
        return {name for name in found if not name.rpartition("/")[2].startswith(".")}

    def open(self, name: str) -> BinaryIO:
        """Opens a file for reading bytes."""
        return open_light(f"{self.uri}/{name}")

    def put(self, name: str, write: Callable[[Path], None]) -> None:
        """Writes a file whole, or not at all.

        Args:
            name: path of the file, relative to the folder.
            write: writes its content to a path.

        Raises:
            UserError: it cannot be written.
        """
        if self._is_stored:
            with tempfile.TemporaryDirectory(prefix="sangam-predict-") as folder:
                aside = Path(folder, "part")
                write(aside)
                with aside.open("rb") as content:
                    object_stores.write(f"{self.uri}/{name}", content)
            return
        target = Path(self.uri, name)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            aside = target.with_name(f"{_ASIDE}{secrets.token_hex(4)}-{target.name}")
            try:
                write(aside)
                sync(aside)
                os.replace(aside, target)
            finally:
                aside.unlink(missing_ok=True)
        except OSError as error:
            raise UserError(f"{target}: cannot be written (got {error.strerror}); see that the disk has room") from None

    def remove(self, name: str) -> None:
        """Removes a file, if it is there."""
        if self._is_stored:
            if object_stores.found(f"{self.uri}/{name}"):
                object_stores.delete(f"{self.uri}/{name}")
        else:
            Path(self.uri, name).unlink(missing_ok=True)

    def begin(self) -> None:
        """Makes the folder, and removes what a killed job has left in it."""
        if not self._is_stored:
            try:
                Path(self.uri).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise UserError(
                    f"--output: cannot be made (got {self.uri}: {error.strerror}); choose another"
                ) from None
            for aside in Path(self.uri).rglob(f"{_ASIDE}*"):
                with contextlib.suppress(OSError):
                    aside.unlink()
        self.take_errors()

    def take_errors(self) -> list[str]:
        """Returns the reasons for which files could not be scored, and removes them."""
        names = sorted(name for name in self.names() if name.startswith(f"{ERRORS}/"))
        texts = []
        for name in names:
            with self.open(name) as file:
                texts.append(file.read().decode())
            self.remove(name)
        if not self._is_stored:
            with contextlib.suppress(OSError):
                Path(self.uri, ERRORS).rmdir()
        return texts
