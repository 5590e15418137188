"""The files whose rows are scored: a file, a folder or a pattern, on this machine or on an object store."""

import glob
import os
import posixpath
from collections.abc import Sequence
from itertools import takewhile
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from sangam.components import object_stores
from sangam.components.logs.files.day_files import require_regular, visible
from sangam.components.logs.files.light_storage import LightStorage
from sangam.components.logs.files.listing import Listed
from sangam.components.logs.files.local_files import literal
from sangam.schemas.errors import UserError
from sangam.schemas.problems import listed

Format: TypeAlias = Literal["parquet", "csv", "jsonl"]
_SUFFIXES: dict[str, Format] = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}


class Source(BaseModel):
    """A file of rows.

    Attributes:
        path: path or address.
        name: path relative to the folder of all files.
        size_bytes: size.
        mtime_ns: time of the last change, in nanoseconds since 1970.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str
    name: str
    size_bytes: int
    mtime_ns: int

    @property
    def part(self) -> str:
        """Name of the file with its predictions."""
        return self.name if self.name.endswith(".parquet") else f"{self.name}.parquet"


def sources_of(data: str) -> list[Source]:
    """Returns the files of a path, a folder, with all below it, or a pattern; by path.

    Raises:
        UserError: there are none, or one is not a regular file.
    """
    folder = data.rstrip("/") or "/"
    found = _in_folder(folder)
    if found:
        base = folder
    else:
        # Brackets in the name of a file are no pattern.
        [found] = LightStorage().match([glob.escape(data) if os.path.isfile(data) else data])
        found = visible(found, data)
        base = _common([each.path for each in found])
    require_regular(found)
    files = [
        Source(
            path=each.path,
            name=each.path.removeprefix(base).lstrip("/"),
            size_bytes=each.facts.size_bytes,
            mtime_ns=each.facts.mtime_ns,
        )
        for each in found
        if each.facts
    ]
    if not files:
        raise UserError(f"DATA: no file matches (got {data}); give a file, a folder, or a pattern in quotes")
    return files


def format_of(sources: Sequence[Source]) -> Format:
    """Returns the format of all files, by their suffixes.

    Raises:
        UserError: a suffix is unknown, or they differ.
    """
    formats = {source.path: _SUFFIXES.get(_suffix(source.path)) for source in sources}
    known = {found for found in formats.values() if found}
    if unknown := [path for path, found in formats.items() if found is None]:
        raise UserError(
            f"{unknown[0]}: its format is unknown (got suffix '{_suffix(unknown[0])}'); {listed(list(_SUFFIXES))}, "
            "each also with .gz, or give --format"
        )
    if len(known) > 1:
        raise UserError(f"DATA: has several formats (got {listed(list(known))}); give a pattern of one of them")
    return known.pop()


def _suffix(path: str) -> str:
    return posixpath.splitext(path.removesuffix(".gz"))[1].lower()


def _in_folder(folder: str) -> list[Listed]:
    """Returns the visible files below a folder; none where there is no such folder."""
    if object_stores.is_stored(folder):
        if any(literal(part) is None for part in folder.split("/")[3:]):
            return []
        uris = [each.uri for each in object_stores.listed(folder, recursive=True)]
        patterns = [glob.escape(uri.partition("://")[2]) for uri in uris if not _is_hidden(uri.removeprefix(folder))]
        patterns = [f"{folder.partition('://')[0]}://{pattern}" for pattern in patterns]
    else:
        patterns = [
            glob.escape(os.path.join(parent, name))
            for parent, _, names in os.walk(folder)
            for name in names
            if not _is_hidden(os.path.relpath(os.path.join(parent, name), folder))
        ]
    found = [each for of_pattern in LightStorage().match(patterns) for each in of_pattern]
    return sorted(found, key=lambda each: each.path)


def _is_hidden(path: str) -> bool:
    return any(part.startswith(("_", ".")) for part in path.split("/"))


def _common(paths: Sequence[str]) -> str:
    """Returns the folder of all paths."""
    folders = [posixpath.dirname(path).split("/") for path in paths] or [[]]
    pairs = zip(min(folders), max(folders), strict=False)
    return "/".join(first for first, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
