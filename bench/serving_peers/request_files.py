"""Requests in files that any environment reads: arrays alone, which run nothing when they are read."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Request = Mapping[str, Mapping[str, NDArray[Any]]]
"""Arrays of a request by name, in named parts. Bytes end in no zero."""


def write_requests(file: Path, requests: Sequence[Request]) -> None:
    """Writes requests."""
    named = {
        f"{number}/{part}/{name}": array.astype("S") if array.dtype == object else array
        for number, request in enumerate(requests)
        for part, arrays in request.items()
        for name, array in arrays.items()
    }
    np.savez(file, **named)


def read_requests(file: Path) -> list[dict[str, dict[str, NDArray[Any]]]]:
    """Returns the requests of a file, in their order."""
    found: dict[int, dict[str, dict[str, NDArray[Any]]]] = {}
    with np.load(file) as arrays:
        for key, array in arrays.items():
            number, part, name = key.split("/", 2)
            values = array.astype(object) if array.dtype.kind == "S" else array
            found.setdefault(int(number), {}).setdefault(part, {})[name] = values
    return [found[number] for number in sorted(found)]
