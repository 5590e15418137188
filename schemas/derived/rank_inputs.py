"""Names of the inputs of `rank`: the columns of the logs, as far as TensorFlow and Python allow."""

import math
import re
from collections.abc import Iterable
from keyword import iskeyword

from sangam.schemas.parts.columns import Column, ColumnType

LENGTH = "_length"
"""Suffix of the input with the number of values in each row of a list column."""

REQUEST_NUMBER = "request_number"
"""Input of `RANK_SEVERAL`: the number of each candidate's request, from 0, in ascending order: int32 [candidates]. A
column has a row for each request or one for each candidate."""

MISSING: dict[ColumnType, bytes | int | float] = {"string": b"", "int": -(2**63), "float": math.nan}
"""Value of a scalar input where the column has none."""

_FORBIDDEN = re.compile(r"[^A-Za-z0-9_]")


def input_name(column: str) -> str:
    """Returns the input of a column.

    An input is both an operation and an argument of a Python function: letters, digits and `_`, a letter first. Any
    other character becomes `_`; a name with another start, or a Python keyword, gets the prefix `x_`.
    """
    clean = _FORBIDDEN.sub("_", column)
    return clean if clean[:1].isalpha() and not iskeyword(clean) else f"x_{clean}"


def input_names(columns: Iterable[Column]) -> dict[str, str]:
    """Returns the input of each column, by the column's name."""
    return {column.name: input_name(column.name) for column in columns}


def clashes(columns: Iterable[Column]) -> list[tuple[str, str, str]]:
    """Returns the pairs of columns that need the same input, and its name; a model with any cannot be exported."""
    columns = list(columns)
    names = input_names(columns)
    taken: dict[str, str] = {REQUEST_NUMBER: f"({REQUEST_NUMBER} of the server)"}
    pairs = []
    for column in columns:
        for name in [names[column.name], *([names[column.name] + LENGTH] if column.is_list else [])]:
            first = taken.setdefault(name, column.name)
            if first != column.name:
                pairs.append((first, column.name, name))
    return pairs
