"""Files of examples: their names and blocks.

A file is an uncompressed TFRecord file. Each of its records is a block: up to `BLOCK_ROWS` rows as one tf.Example,
compressed by zlib. The features of a block are columns: `values_of(column)` has the values of all rows, one after
another, and `lengths_of(column)` (int64) the number of values of each row; 0: the row has no value.

Rows of one tf.Example each would take four times as long to parse, twice the bytes, and eight times as long to write
(infra/adr/0038-blocks.md). Sorted by name, the files of a day and their rows have the order of the logs.
"""

import re
from collections.abc import Iterable
from itertools import groupby

LISTING_FILE = "examples.json"
"""Lists the files of an artifact of examples, by split and day."""
DIGEST_DIGITS = 32
"""Digits of a day's digest, which covers its log files, the part of the spec that examples depend on, and the code."""
BLOCK_ROWS = 1024
"""Most rows of a block, which are read, shuffled and transformed together."""
COMPRESSION = "ZLIB"
"""Compression of each record, as named by `tf.io.decode_compressed`."""
_DAY = re.compile(r"-(\d{4}-\d{2}-\d{2})-\d{5}-\d{5}\.blocks$")


def digest_of(folder: str) -> str:
    """Returns the digest of a day from the folder of its examples, `.../<day>-<digest>/<attempt>`."""
    return folder.rstrip("/").split("/")[-2][-DIGEST_DIGITS:]


def values_of(column: str) -> str:
    """Returns the feature of a block with a column's values."""
    return f"values/{column}"


def lengths_of(column: str) -> str:
    """Returns the feature of a block with the number of a column's values in each row."""
    return f"lengths/{column}"


def file_name(day: str | None, source: int, part: int) -> str:
    """Returns the name of a file of examples.

    Args:
        day: YYYY-MM-DD of its rows, None for logs without days.
        source: number of the group of log files with its rows, in their order.
        part: number of the file within its source.
    """
    return f"examples{f'-{day}' if day else ''}-{source:05d}-{part:05d}.blocks"


def day_of(path: str) -> str:
    """Returns the day of a file's rows, YYYY-MM-DD; "" for logs without days."""
    match = _DAY.search(path)
    return match.group(1) if match else ""


def by_day(paths: Iterable[str]) -> dict[str, list[str]]:
    """Returns the files of each day, oldest day first, in the order of the logs."""
    in_order = sorted(paths, key=lambda path: (day_of(path), path))
    return {day: list(of_day) for day, of_day in groupby(in_order, key=day_of)}
