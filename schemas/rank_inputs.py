"""What the inputs of a served model's `rank` are called: after the columns of the logs, as far as TensorFlow allows."""

import re
from collections.abc import Iterable

from schemas.columns import Column

LENGTH = "_length"
"""Behind the name of a column of lists: the input that says how many values each row has."""

_FORBIDDEN = re.compile(r"[^A-Za-z0-9_.-]")
_FORBIDDEN_FIRST = re.compile(r"^[^A-Za-z0-9.]")


def input_names(columns: Iterable[Column]) -> dict[str, str]:
    """Returns the input of each column, by the column's name.

    TensorFlow's names begin with a letter, a digit or a dot, and consist of these, `_` and `-`; any other character
    becomes `_`, and a name that would begin with another begins with `x`.

    Reference: https://www.tensorflow.org/api_docs/python/tf/Graph#name_scope
    """
    names = {column.name: _FORBIDDEN.sub("_", column.name) for column in columns}
    return {name: f"x{clean}" if _FORBIDDEN_FIRST.match(clean) else clean for name, clean in names.items()}


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
