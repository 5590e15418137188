"""What the inputs of `rank` are called: after the columns of the logs, as far as TensorFlow and Python allow."""

import math
import re
from collections.abc import Iterable
from keyword import iskeyword

from schemas.derived.columns import Column, ColumnType

LENGTH = "_length"
"""Behind the name of a column of lists: the input that says how many values each row has."""

MISSING: dict[ColumnType, bytes | int | float] = {"string": b"", "int": -(2**63), "float": math.nan}
"""What a scalar input holds where the column has no value."""

_FORBIDDEN = re.compile(r"[^A-Za-z0-9_]")


def input_names(columns: Iterable[Column]) -> dict[str, str]:
    """Returns the input of each column, by the column's name.

    An input is an operation and an argument of a Python function at once: letters, digits and `_`, a letter first. Any
    other character becomes `_`; what would begin otherwise, or is a word of Python's own, begins with `x_`.
    """
    names = {column.name: _FORBIDDEN.sub("_", column.name) for column in columns}
    return {
        name: clean if clean[0].isalpha() and not iskeyword(clean) else f"x_{clean}" for name, clean in names.items()
    }


def clashes(columns: Iterable[Column]) -> list[tuple[str, str, str]]:
    """Returns what keeps a model from being exported: pairs of columns that need the same input, and its name."""
    columns = list(columns)
    names = input_names(columns)
    taken: dict[str, str] = {}
    found = []
    for column in columns:
        for name in [names[column.name], *([names[column.name] + LENGTH] if column.is_list else [])]:
            first = taken.setdefault(name, column.name)
            if first != column.name:
                found.append((first, column.name, name))
    return found
