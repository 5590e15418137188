"""The pairs of values of one column that differ, and what a test finds in them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from sangam.components.reports.skew import Kind
from sangam.components.skew.values import Mask
from sangam.components.skew.versions import Versions


@dataclass(frozen=True)
class Pairs:
    """The pairs of one column that differ, and what may explain them.

    Attributes:
        served: values that the model saw.
        offline: values by the logs.
        others: values by the logs of the other columns of this type, by name.
        versions: values of other versions of the row in its table; None: the column is of no table.
        is_behind: whether the newest versions are missing from the table that was served.
        is_permuted: whether the values of the row's request are those by the logs in another order.
        default: value that stands for a missing one; None: unknown.
    """

    served: pa.Array
    offline: pa.Array
    others: Mapping[str, pa.Array] = field(default_factory=dict)
    versions: Versions | None = None
    is_behind: bool = False
    is_permuted: Mask | None = None
    default: Any = None


@dataclass(frozen=True)
class Found:
    """What a test has found.

    Attributes:
        kind: kind of the cause.
        explains: the pairs that it explains.
        detail: what exactly was found.
    """

    kind: Kind
    explains: Mask
    detail: str
