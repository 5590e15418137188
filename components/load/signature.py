"""The inputs of a model's signature, and requests for them: random ones, or of given rows."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sangam.schemas.contracts.export import RANK
from sangam.schemas.derived.rank_inputs import LENGTH
from sangam.schemas.errors import UserError

Arrays = dict[str, NDArray[Any]]
"""Inputs of a request by name."""

_IDS = 1_000
"""Random ids and numbers of a column are of so many."""
_WIDTH = 8
"""Values of a random list."""
_DTYPES: dict[str, Any] = {
    "DT_STRING": np.object_,
    "DT_INT64": np.int64,
    "DT_INT32": np.int32,
    "DT_FLOAT": np.float32,
    "DT_DOUBLE": np.float64,
    "DT_BOOL": np.bool_,
}


@dataclass(frozen=True)
class Input:
    """An input of a signature.

    Attributes:
        dtype: NumPy's type; object for strings.
        is_list: whether a row has a list of values.
    """

    dtype: Any
    is_list: bool


def inputs_of(metadata: Mapping[str, Any]) -> dict[str, Input]:
    """Reads the inputs of `rank` from a model's metadata, a SignatureDefMap as JSON.

    Raises:
        UserError: it has no such signature, or one with an input of another kind.
    """
    signatures = metadata.get("signature_def") or {}
    if RANK not in signatures:
        names = ", ".join(sorted(signatures)) or "none"
        raise UserError(f"ADDRESS: the model has no signature {RANK} (got {names}); requests are made for that one")
    inputs = {}
    for name, described in sorted(signatures[RANK]["inputs"].items()):
        dtype, dims = described.get("dtype"), described.get("tensor_shape", {}).get("dim", [])
        if dtype not in _DTYPES or not 1 <= len(dims) <= 2:
            raise UserError(
                f"ADDRESS: no values can be made for input {name} (got {dtype} of {len(dims)} dimensions); "
                "give --requests"
            )
        inputs[name] = Input(_DTYPES[dtype], len(dims) == 2)
    return inputs


def check_once(inputs: Collection[str], once: Collection[str]) -> None:
    """Refuses columns that the signature does not have.

    Raises:
        UserError: with all of them.
    """
    if unknown := sorted(set(once) - set(inputs)):
        known = ", ".join(name for name in inputs if not name.endswith(LENGTH))
        raise UserError(f"--once: no such input of {RANK} (got {', '.join(unknown)}); inputs: {known}")


def random_request(inputs: Mapping[str, Input], *, once: Collection[str], candidates: int, seed: int) -> Arrays:
    """Returns a request with random values: one row of the columns `once`, a row for each candidate of the others."""
    random, arrays = np.random.default_rng(seed), {}
    for name, described in inputs.items():
        num_rows = 1 if _column(name, inputs) in once else candidates
        shape = [num_rows, _WIDTH] if described.is_list else [num_rows]
        if _column(name, inputs) != name:
            arrays[name] = np.full(shape, _WIDTH, described.dtype)
        elif described.dtype is np.object_:
            ids = random.integers(0, _IDS, shape).astype("S")
            arrays[name] = np.char.add(f"{name}_".encode(), ids).astype(np.object_)
        elif np.issubdtype(described.dtype, np.floating):
            arrays[name] = random.random(shape).astype(described.dtype)
        else:
            arrays[name] = random.integers(0, _IDS, shape).astype(described.dtype)
    return arrays


def resized(request: Mapping[str, NDArray[Any]], *, once: Collection[str], candidates: int, seed: int) -> Arrays:
    """Returns a request with as many candidates, drawn from its rows; one row of the columns `once`."""
    random, count = np.random.default_rng(seed), num_candidates([request])
    rows = random.integers(0, count, candidates)
    arrays = {}
    for name, array in request.items():
        is_shared = len(array) == 1 < count
        arrays[name] = array[:1] if is_shared else array[rows[:1] if _column(name, request) in once else rows]
    return arrays


def num_candidates(requests: Sequence[Mapping[str, NDArray[Any]]]) -> int:
    """Returns the most rows of a request."""
    return max(len(array) for request in requests for array in request.values())


def _column(name: str, inputs: Collection[str]) -> str:
    """Returns the column of an input: of a list's lengths, the list."""
    column = name.removesuffix(LENGTH)
    return column if column in inputs else name
