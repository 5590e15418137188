"""Ids that come again on a later day, and those that do not: a row of a table for each of these learns nothing."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sangam.pipelines.drafting.values import Values

DAY_S = 86_400
FEWEST_ROWS = 100
"""Fewest rows of the newest day with a value."""
NEVER, MOSTLY_NEW = 0.01, 0.5
"""Shares of the newest day's rows: up to the first an id counts as one that never returns, below the second it is
marked."""

Earlier = Callable[[Mapping[str, pa.Array]], Mapping[str, pa.Array]]
"""Returns those of some ids that the logs of earlier days have, by column; a column that cannot be read is absent."""


def returning(columns: Mapping[str, Values], days: Any, earlier: Earlier | None) -> dict[str, float]:
    """Returns the share of the newest day's rows whose id an earlier day has, by column where it is known.

    Args:
        columns: columns of ids.
        days: day of each row; None where it is not known.
        earlier: looks in the logs for ids of the newest day that the rows before do not have; None: the rows are all.
    """
    if days is None or len(np.unique(days)) < 2:
        return {}
    is_newest = days == days.max()
    seen: dict[str, Any] = {}
    for name, values in columns.items():
        if (is_newest & values.is_present).sum() >= FEWEST_ROWS:
            before = values.codes[~is_newest & values.is_present]
            seen[name] = np.isin(np.arange(values.num_different), before)
    if earlier:
        _look(columns, is_newest, seen, earlier)
    return {name: float(each[_newest(columns[name], is_newest)].mean()) for name, each in seen.items()}


def _look(columns: Mapping[str, Values], is_newest: Any, seen: dict[str, Any], earlier: Earlier) -> None:
    """Marks what earlier days have of the ids that are not seen yet, of columns that may be mostly new."""
    unseen: dict[str, pa.Array] = {}
    for name, each in seen.items():
        codes = _newest(columns[name], is_newest)
        if each[codes].mean() < MOSTLY_NEW:
            unseen[name] = columns[name].different.take(pa.array(np.unique(codes[~each[codes]])))
    found = earlier(unseen) if unseen else {}
    for name in unseen:
        if name in found:
            seen[name] |= np.asarray(pc.is_in(columns[name].different, value_set=found[name]))
        else:
            del seen[name]


def _newest(values: Values, is_newest: Any) -> Any:
    """Returns the codes of the newest day's rows that have a value."""
    return values.codes[is_newest & values.is_present]
