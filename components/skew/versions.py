"""Other versions of the rows of a table: was a value served that the table had earlier, or has only had later?"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sangam.components.skew.values import Mask, differing, missing

Seconds = NDArray[np.float64]


@dataclass(frozen=True)
class Versions:
    """A column's values in other versions than the one as of the request, for each row.

    Attributes:
        earlier: values one version before, two before, and so on; null where there is none.
        later: values of the version after it.
        since_s: time of the version as of the request, seconds since 1970; NaN where there is none.
        at_s: time of the request.
    """

    earlier: Sequence[pa.Array]
    later: pa.Array
    since_s: Seconds
    at_s: Seconds

    def take(self, rows: NDArray[np.int64]) -> "Versions":
        """Returns the versions of some rows."""
        at = pa.array(rows)
        earlier = [values.take(at) for values in self.earlier]
        return Versions(earlier, self.later.take(at), self.since_s[rows], self.at_s[rows])

    def back(self, served: pa.Array) -> NDArray[np.int64]:
        """Returns how many versions before the request's the served value is from; 0: from none of them."""
        result = np.zeros(len(served), np.int64)
        for number in range(len(self.earlier), 0, -1):
            values = self.earlier[number - 1]
            result[~differing(served, values) & ~missing(served)] = number
        return result

    def is_later(self, served: pa.Array) -> Mask:
        """Returns which served values are from the version after the request's."""
        return ~differing(served, self.later) & ~missing(served)


def is_stale(wrong: Versions, right: Versions, back: NDArray[np.int64]) -> bool:
    """Returns whether old values are due to a table that is behind, not to a join that takes another version than due.

    A table that is behind lacks the newest versions of all rows: those after some time, or younger than some age.
    A join that takes the one before is wrong also where the version has been there for long.

    Args:
        wrong: the rows with an old value.
        right: the rows with the right value, which would be told from the one before.
        back: how many versions before the request's the wrong values are from.
    """
    if not len(right.at_s):
        return bool((back > 1).any())
    is_after = wrong.since_s.min() > right.since_s.max()
    is_younger = (wrong.at_s - wrong.since_s).max() < (right.at_s - right.since_s).min()
    return bool(is_after or is_younger)
