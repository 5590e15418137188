"""Ids that never come again, such as those of requests: a row of a table for each would learn nothing."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from sangam.pipelines.drafting.names import ITEMS, USERS, words_of
from sangam.pipelines.drafting.values import Values

DAY_S = 86_400
FEWEST_IDS, LARGEST_SHARE = 100, 0.01


def passing(columns: Mapping[str, Values], days: Any) -> dict[str, float]:
    """Returns the columns of ids whose newest day has hardly one that came before, and that share.

    Args:
        columns: columns of ids.
        days: day of each row, all rows of the logs; None where that is not known.
    """
    if days is None or len(np.unique(days)) < 2:
        return {}
    is_new = days == days.max()
    found = {}
    for name, values in columns.items():
        if (USERS | ITEMS) & set(words_of(name)):
            continue
        codes = values.codes
        newest = np.unique(codes[is_new & (codes >= 0)])
        if len(newest) < FEWEST_IDS:
            continue
        share = float(np.isin(newest, codes[~is_new]).mean())
        if share <= LARGEST_SHARE:
            found[name] = share
    return found
