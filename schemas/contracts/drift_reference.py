"""`drift_reference.json` of a pushed version: what its inputs and scores were distributed like where it was trained.

Servers compare what they are asked with it. It has no values of ids and texts but their hashes. Numbers are kept by
bins of about equal shares: bin i has those above `cuts[i - 1]` and up to `cuts[i]`.
"""

import json
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from sangam.schemas.contracts.formats import refuse_other_format
from sangam.schemas.errors import UserError
from sangam.schemas.parts.base import FrozenModel
from sangam.schemas.parts.columns import ColumnType
from sangam.schemas.spec.drift import Measure, Share

FILE_NAME = "drift_reference.json"
"""Beside the model and the manifest, which lists it."""
FORMAT: Literal[1] = 1

LEAST_SHARE = 0.001
"""Share of the rarest value that is kept by itself; all others are the rest."""
_Finite = Annotated[float, Field(allow_inf_nan=False)]
_Hash = Annotated[int, Field(ge=0, lt=2**64)]


class Bins(FrozenModel):
    """Numbers, by bins.

    Attributes:
        cuts: ascending numbers, each the highest of its bin; the last bin has no highest.
        shares: share of the numbers in each bin.
    """

    cuts: tuple[_Finite, ...]
    shares: tuple[Share, ...]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if len(self.shares) != len(self.cuts) + 1 or list(self.cuts) != sorted(set(self.cuts)):
            raise ValueError("cuts must ascend, and there must be one more share than cuts")
        return self


class Values(FrozenModel):
    """The most frequent ids or texts.

    Attributes:
        hashes: hash of each, see `components/drift/hashing.py`; ascending.
        shares: share of each.
    """

    hashes: tuple[_Hash, ...]
    shares: tuple[Share, ...]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if len(self.shares) != len(self.hashes) or list(self.hashes) != sorted(set(self.hashes)):
            raise ValueError("hashes must ascend, and there must be as many shares")
        return self


class ColumnReference(FrozenModel):
    """A column that the model reads.

    Attributes:
        type: type of a value.
        missing: share of the rows without a value.
        numbers: numbers; None for ids and texts, and where they are not compared, as times are.
        values: ids and texts; None likewise.
        lengths: numbers of values of the rows that have any; None for a column without lists.
        bounds: largest distances that the spec allows.
    """

    type: ColumnType
    missing: Share
    numbers: Bins | None = None
    values: Values | None = None
    lengths: Bins | None = None
    bounds: dict[Measure, Share] = Field(default_factory=dict)


class DriftReference(FrozenModel):
    """The file.

    Attributes:
        format: format of the file.
        rows: number of rows of the training split.
        columns: columns by name.
        scores: predictions by task, of those whose distribution is known.
        scores_of: examples that these are the predictions of.
    """

    format: Literal[1] = FORMAT
    rows: int
    columns: dict[str, ColumnReference]
    scores: dict[str, Bins]
    scores_of: Literal["evaluation split"] = "evaluation split"

    def text(self) -> str:
        """Returns the file's contents."""
        return self.model_dump_json() + "\n"


def read_reference(file: str, content: bytes) -> DriftReference:
    """Reads the file.

    Args:
        file: name of the file in errors.
        content: content of the file.

    Raises:
        UserError: it has another format, or is damaged.
    """
    remedy = "another version has written it: push the model again"
    try:
        refuse_other_format(file, json.loads(content), FORMAT, remedy)
        return DriftReference.model_validate_json(content)
    except ValueError as error:  # Also pydantic's.
        raise UserError(f"{file}: cannot be read (got {error}); push the model again") from error
