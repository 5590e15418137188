"""Tables of Delta Lake, as of a version: their log says which Parquet files hold the rows.

Reference: https://github.com/delta-io/delta/blob/master/PROTOCOL.md
"""

import os
from dataclasses import dataclass
from urllib.parse import unquote, urlparse

from sangam.components.logs.files.listing import FileFacts, Listed
from sangam.components.object_stores import found, is_stored, s3_settings
from sangam.schemas.errors import UserError


@dataclass(frozen=True)
class DeltaVersion:
    """A version of a table.

    Attributes:
        number: number of the version.
        files: its files, by path.
    """

    number: int
    files: tuple[Listed, ...]


def delta_version(folder: str, number: int | None) -> DeltaVersion:
    """Returns a version of a table.

    Args:
        folder: folder of the table.
        number: number of the version; None: the newest.

    Raises:
        UserError: the folder is no table, lacks the version, or has rows that only deletion vectors remove.
    """
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        table = DeltaTable(folder, version=number, storage_options=_options(folder))
        uris = table.file_uris()
        removed = _num_deletion_vectors(table)
    except TableNotFoundError:
        raise UserError(
            f"{folder}: is not a Delta Lake table (got no _delta_log with a version); name its folder as data.pattern"
        ) from None
    except (DeltaError, OSError, ValueError) as error:
        version = "its newest version" if number is None else f"version {number}"
        # Unlike pyarrow, deltalake reads no profiles.
        is_unread = is_stored(folder) and "Generic S3 error" in str(error)
        remedy = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, not a profile" if is_unread else "choose another"
        raise UserError(f"{folder}: {version} cannot be read (got: {_first_line(error)}); {remedy}") from None
    if removed:
        raise UserError(
            f"{folder}: has deletion vectors (got {removed} files with removed rows); rewrite them, in Spark with "
            f"REORG TABLE delta.`{folder}` APPLY (PURGE)"
        )
    return DeltaVersion(int(table.version()), tuple(_listed(uri) for uri in sorted(uris)))


def _num_deletion_vectors(table: object) -> int:
    return sum(batch.num_rows for batch in table.deletion_vectors())  # type: ignore[attr-defined]


def _options(folder: str) -> dict[str, str] | None:
    """Returns what deltalake does not read from the environment by itself."""
    if not folder.startswith("s3://"):
        return None
    settings = s3_settings(folder.split("/")[2], os.environ)
    endpoint = settings.get("endpoint_override", "")
    return {
        **({"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": str(endpoint.startswith("http://"))} if endpoint else {}),
        "AWS_REGION": settings.get("region", "us-east-1"),
    }


def _listed(uri: str) -> Listed:
    if is_stored(uri):
        one = found(uri)
        if one is None:
            return Listed(uri, None, "is not there; the table's log names it: restore it")
        return Listed(uri, FileFacts(one.size_bytes, one.mtime_ns))
    path = unquote(urlparse(uri).path) if uri.startswith("file://") else uri
    try:
        status = os.stat(path)
    except OSError as error:
        return Listed(path, None, f"cannot be inspected (got: {error.strerror}); the table's log names it: restore it")
    return Listed(path, FileFacts(status.st_size, status.st_mtime_ns))


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
