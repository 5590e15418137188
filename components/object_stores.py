"""Files on an object store: s3:// and gs://, by pyarrow's clients.

An object is seen whole or not at all; there are no folders, renames and locks. pyarrow finds the credentials as other
tools do (variables, profiles, the machine's own). Loads without TensorFlow, TFX and Beam.
"""

import contextlib
import datetime
import functools
import io
import os
import re
import shutil
import urllib.request
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast
from urllib.parse import urlsplit

from sangam.schemas.errors import UserError

if TYPE_CHECKING:
    import pyarrow.fs

_SCHEMES = ("s3://", "gs://")
_BUFFER_BYTES = 2**20
_MOST_COPIED_BYTES = 5 * 10**9
"""Bytes of the largest object that S3 copies in one request."""
_GIVE_UP = datetime.timedelta(seconds=30)
_CAUSES = (
    (r"NO_SUCH_BUCKET|NoSuchBucket|Bucket '.*' not found", "no such bucket", "correct the address"),
    (
        r"ACCESS_DENIED|INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH|EXPIRED_TOKEN|UNAUTHORI|PERMISSION_DENIED"
        r"|HTTP status 40[013]|UNAUTHENTICATED|OAuth2",
        "access is denied",
        "set credentials that may use the bucket: {credentials}",
    ),
    (r"PERMANENT_REDIRECT|HTTP status 301", "the bucket is in another region", "set AWS_REGION"),
    (r"NETWORK_CONNECTION|curlCode|REQUEST_TIMEOUT|UNAVAILABLE", "the store does not answer", "{network}"),
)
_NETWORK = "check the network"
_SETTINGS = {
    "s3": {
        "credentials": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
        "network": f"{_NETWORK}, and for another store than Amazon's set AWS_ENDPOINT_URL",
    },
    "gs": {"credentials": "GOOGLE_APPLICATION_CREDENTIALS", "network": _NETWORK},
}


class Stored(NamedTuple):
    """An object.

    Attributes:
        uri: its address.
        size_bytes: its size.
        mtime_ns: when it was written, in nanoseconds since 1970.
    """

    uri: str
    size_bytes: int
    mtime_ns: int


def is_stored(path: str) -> bool:
    """Returns whether a path is an address on an object store."""
    return path.startswith(_SCHEMES)


def listed(folder: str, *, recursive: bool) -> list[Stored]:
    """Returns the objects below an address, by address; without the empty ones that represent folders.

    Raises:
        UserError: there is no such bucket, or it cannot be listed.
    """
    return [entry for entry in _entries(folder, recursive=recursive) if isinstance(entry, Stored)]


def names(folder: str) -> list[str]:
    """Returns the names of objects and folders right below an address.

    Raises:
        UserError: see `listed`.
    """
    # On gs:// pyarrow tells of a folder only if an object stands for it.
    found = _entries(folder, recursive=folder.startswith("gs://"))
    uris = (each.uri if isinstance(each, Stored) else each for each in found)
    return sorted({uri.removeprefix(f"{folder.rstrip('/')}/").partition("/")[0] for uri in uris})


def _entries(folder: str, *, recursive: bool) -> list[Stored | str]:
    import pyarrow.fs

    scheme = folder.partition("://")[0]
    with explained(folder):
        store, path = located(folder)
        try:
            found = store.get_file_info(pyarrow.fs.FileSelector(path, recursive=recursive))
        except OSError as error:
            # Not by `allow_not_found`, which would hide a missing bucket.
            if "No such file or directory" not in str(error):
                raise
            return []
    entries = sorted(found, key=lambda each: each.path)
    return [
        Stored(f"{scheme}://{each.path}", each.size, each.mtime_ns)
        if each.type == pyarrow.fs.FileType.File
        else f"{scheme}://{each.path}"
        for each in entries
        if not each.path.endswith("/")
    ]


def found(uri: str) -> Stored | None:
    """Returns an object; None where there is none.

    Raises:
        UserError: it cannot be asked for.
    """
    with explained(uri):
        store, path = located(uri)
        info = store.get_file_info(path)
    return Stored(uri, info.size, info.mtime_ns) if info.is_file else None


def open_stored(uri: str) -> BinaryIO:
    """Opens an object for reading bytes.

    Raises:
        UserError: it cannot be opened.
    """
    with explained(uri):
        store, path = located(uri)
        return whole_file(store.open_input_file(path))


def read(uri: str) -> bytes:
    """Returns the content of a small object."""
    with open_stored(uri) as file:
        return file.read()


def write(uri: str, content: BinaryIO) -> None:
    """Writes an object.

    Raises:
        UserError: it cannot be written.
    """
    import pyarrow.fs

    with explained(uri):
        store, path = located(uri)
        if isinstance(store, pyarrow.fs.LocalFileSystem):
            # A store has no folders, and gets no objects in their place.
            store.create_dir(os.path.dirname(path))
        with store.open_output_stream(path) as file:
            shutil.copyfileobj(content, file, _BUFFER_BYTES)


def copy(source: Stored, target: str) -> None:
    """Copies an object within a store.

    Raises:
        UserError: it cannot be copied.
    """
    if source.size_bytes > _MOST_COPIED_BYTES:
        with open_stored(source.uri) as file:
            write(target, file)
        return
    with explained(target):
        store, path = located(source.uri)
        store.copy_file(path, located(target)[1])


def delete(uri: str) -> None:
    """Deletes an object.

    Raises:
        UserError: it cannot be deleted.
    """
    with explained(uri):
        store, path = located(uri)
        store.delete_file(path)


def delete_all(folder: str) -> None:
    """Deletes all objects below an address, and the empty one that represents it.

    Raises:
        UserError: they cannot be deleted.
    """
    with explained(folder):
        store, path = located(folder)
        store.delete_dir(path)


@contextlib.contextmanager
def explained(uri: str) -> Iterator[None]:
    """Turns an error of a store into one sentence."""
    try:
        yield
    except (OSError, ValueError) as error:  # pyarrow's error for a malformed address is a ValueError.
        text = next(iter(str(error).splitlines()), type(error).__name__)
        raise UserError(f"{uri}: {_problem(uri, text)}") from None


def _problem(uri: str, text: str) -> str:
    settings = _SETTINGS.get(uri.partition("://")[0], {"credentials": "as the store needs them", "network": _NETWORK})
    for pattern, what, remedy in _CAUSES:
        if re.search(pattern, text):
            return f"{what} (got: {text}); {remedy.format(**settings)}"
    return f"cannot be used (got: {text}); check the address and the rights on it"


def located(uri: str) -> tuple["pyarrow.fs.FileSystem", str]:
    """Returns the client of a store, and the path in it.

    Raises:
        OSError: the bucket's region cannot be found.
    """
    scheme, _, path = uri.partition("://")
    path = path.rstrip("/")
    if scheme == "s3":
        return _s3(os.getpid(), tuple(s3_settings(path.partition("/")[0], os.environ).items())), path
    if scheme == "gs":
        return _gs(os.getpid()), path
    import pyarrow.fs

    store, path = pyarrow.fs.FileSystem.from_uri(uri)
    return store, path


def s3_settings(bucket: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings that pyarrow does not read from the environment by itself."""
    endpoint = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or ""
    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or ""
    settings = {"endpoint_override": endpoint} if endpoint else {}
    if region or not endpoint:
        settings["region"] = region or _region_of(bucket)
    address = urlsplit(endpoint or f"https://s3.{settings['region']}.amazonaws.com")
    if not urllib.request.proxy_bypass(address.hostname or ""):
        proxy = urllib.request.getproxies().get(address.scheme)
        settings |= {"proxy_options": proxy} if proxy else {}
    return settings


@functools.cache
def _region_of(bucket: str) -> str:
    import pyarrow.fs

    region: str = pyarrow.fs.resolve_s3_region(bucket)
    return region


# By process: the connections of a parent are not a child's.
@functools.cache
def _s3(_process: int, settings: tuple[tuple[str, str], ...]) -> "pyarrow.fs.FileSystem":
    import pyarrow.fs

    return pyarrow.fs.S3FileSystem(**dict(settings))


@functools.cache
def _gs(_process: int) -> "pyarrow.fs.FileSystem":
    import pyarrow.fs

    return pyarrow.fs.GcsFileSystem(retry_time_limit=_GIVE_UP)


def whole_file(file: Any) -> BinaryIO:
    """Returns a remote file as a complete file object, which pyarrow and gzip need and few clients give."""
    return cast(BinaryIO, io.BufferedReader(_RawFile(file), buffer_size=_BUFFER_BYTES))


class _RawFile(io.RawIOBase):
    def __init__(self, file: Any):
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return int(self._file.tell())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._file.seek(offset, whence)
        return self.tell()

    def readinto(self, buffer: Any) -> int:
        content = self._file.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()
