"""Refuses folders of table formats: their logs say which of the Parquet files count, which their paths do not."""

import glob
import posixpath
from collections.abc import Iterable
from typing import NamedTuple

from sangam.components.logs.files.listing import Storage
from sangam.schemas.errors import UserError


class _Table(NamedTuple):
    """A table format: files of its log in the table's folder, and its name in Spark."""

    name: str
    log: str
    spark: str


_TABLES = (
    _Table("Delta Lake", "_delta_log/*.json", "delta"),
    _Table("Apache Iceberg", "metadata/*.metadata.json", "iceberg"),
    _Table("Apache Hudi", ".hoodie/hoodie.properties", "hudi"),
)


def refuse_tables(parquet_files: Iterable[str], storage: Storage) -> None:
    """Refuses files in or below the folder of a table.

    Args:
        parquet_files: paths of Parquet files.
        storage: storage of the files.

    Raises:
        UserError: with the folder of the first table.
    """
    folders: set[str] = set()
    for path in parquet_files:
        folder = posixpath.dirname(path)
        while folder not in folders and not ("://" in path and folder.endswith(":")):
            folders.add(folder)
            folder = posixpath.dirname(folder)
    wanted = [(folder, table) for folder in sorted(folders) for table in _TABLES]
    found = storage.match([posixpath.join(glob.escape(folder), table.log) for folder, table in wanted])
    for (folder, table), logs in zip(wanted, found, strict=True):
        if logs:
            found_at = f"{folder or '.'}: is a {table.name} table (got {logs[-1].path})"
            why = "its Parquet files also hold removed and replaced rows"
            raise UserError(f"{found_at}: {why}; {_remedy(table)}")


def _remedy(table: _Table) -> str:
    if table.spark == "delta":
        return "declare it under data as {kind: table, format: delta}, with its folder as pattern"
    return (
        "write the table's current rows to plain Parquet files by day, in Spark with "
        f"spark.read.format('{table.spark}').load(...).write.partitionBy(...).parquet(...), and read those"
    )
