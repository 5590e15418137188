"""Ids, and pairs of them, that come again on a later day, and those that do not: a row of a table for each of these
learns nothing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

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

Pair = tuple[str, str]
"""Two columns of ids."""
Earlier = Callable[[Mapping[str | Pair, pa.Array]], Mapping[str | Pair, pa.Array]]
"""Returns those of some ids that the logs of earlier days have, by column, or by pair of columns, see `paired`; a
column that cannot be read is absent."""
_Key = TypeVar("_Key", str, Pair, str | Pair)


@dataclass(frozen=True)
class Days:
    """What is known of the days of the logs.

    Attributes:
        of_rows: day of each row of the sample; None where it is not known, or some rows are missing.
        earlier: looks in the logs for ids of the newest day that the rows before do not have; None: the rows are all.
        are_files: whether each day has files of its own, so that features may count earlier ones.
    """

    of_rows: Any
    earlier: Earlier | None
    are_files: bool


def paired(first: Values, second: Values) -> Values:
    """Returns the pairs of two columns' ids as texts, missing where an id is."""
    texts = [each.values.cast(pa.large_string()) for each in (first, second)]
    return Values("string", pc.binary_join_element_wise(*texts, pa.scalar("\0", pa.large_string())))


def returning(columns: Mapping[_Key, Values], known: Days) -> dict[_Key, float]:
    """Returns the share of the newest day's rows whose id an earlier day has, by column where it is known."""
    return {name: float(is_seen.mean()) for name, (_, is_seen) in seen_before(columns, known).items()}


def seen_before(columns: Mapping[_Key, Values], known: Days) -> dict[_Key, tuple[Any, Any]]:
    """Returns the newest day's rows that have an id, as positions, and whether an earlier day has it, by column where
    it is known.

    Args:
        columns: columns of ids, or pairs of them.
        known: days of the logs.
    """
    days = known.of_rows
    if days is None or len(np.unique(days)) < 2:
        return {}
    is_newest = days == days.max()
    seen: dict[_Key, Any] = {}
    for name, values in columns.items():
        if (is_newest & values.is_present).sum() >= FEWEST_ROWS:
            before = values.codes[~is_newest & values.is_present]
            seen[name] = np.isin(np.arange(values.num_different), before)
    if known.earlier:
        _look(columns, is_newest, seen, known.earlier)
    rows = {name: np.flatnonzero(is_newest & columns[name].is_present) for name in seen}
    return {name: (rows[name], each[columns[name].codes[rows[name]]]) for name, each in seen.items()}


def _look(columns: Mapping[_Key, Values], is_newest: Any, seen: dict[_Key, Any], earlier: Earlier) -> None:
    """Marks what earlier days have of the ids that are not seen yet, of columns that may be mostly new."""
    unseen: dict[str | Pair, pa.Array] = {}
    for name, each in seen.items():
        codes = _newest(columns[name], is_newest)
        if each[codes].mean() < MOSTLY_NEW:
            unseen[name] = columns[name].different.take(pa.array(np.unique(codes[~each[codes]])))
    found = earlier(unseen) if unseen else {}
    for name in [name for name in seen if name in unseen]:
        if name in found:
            seen[name] |= np.asarray(pc.is_in(columns[name].different, value_set=found[name]))
        else:
            del seen[name]


def _newest(values: Values, is_newest: Any) -> Any:
    """Returns the codes of the newest day's rows that have a value."""
    return values.codes[is_newest & values.is_present]
