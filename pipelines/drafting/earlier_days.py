"""Ids of the newest day, and pairs of them, in the logs of the days before: a column or a few of many rows, newest
first."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from sangam.pipelines.drafting.layout import Layout
from sangam.pipelines.drafting.passing import Earlier, Pair, paired
from sangam.pipelines.drafting.reading import columns_of
from sangam.pipelines.drafting.sample import Sample
from sangam.pipelines.drafting.text_types import typed
from sangam.pipelines.drafting.values import Values, values_of

MOST_ROWS, MOST_MEGABYTES = 2_000_000, 200
"""Bounds of what is read: an id that comes again only after more rows than these counts as new."""


def look_back(layout: Layout, sample: Sample) -> Earlier | None:
    """Returns how ids are looked for; None where the sample has all rows, or the files are not by day.

    Nothing is known where the bounds end within the day before the newest: too much of it was not read.
    """
    if sample.is_whole or sample.day_starts is None or layout.is_table:
        return None
    return lambda ids: _found(layout, sample, ids)


def _found(layout: Layout, sample: Sample, ids: Mapping[str | Pair, pa.Array]) -> dict[str | Pair, pa.Array]:
    found: dict[str | Pair, list[pa.Array]] = {name: [] for name in ids}
    rows, left_bytes = MOST_ROWS, MOST_MEGABYTES * 10**6
    *days, _ = layout.groups.values()
    for number, files in enumerate(reversed(days)):
        for file in files:
            if not file.size_bytes:
                continue
            path = f"{layout.root}/{file.path}"
            names = list(dict.fromkeys(name for key in found for name in _names(key)))
            piece = columns_of(path, layout.format, names, rows, left_bytes, sample.dialect)
            rows, left_bytes = rows - piece.table.num_rows, left_bytes - piece.table.nbytes
            has = {name: _has(name, piece.table, ids[name], layout) for name in found}
            found = {name: [*found[name], each] for name, each in has.items() if each is not None}
            if not piece.is_whole or rows <= 0 or left_bytes <= 0 or not found:
                return _joined(ids, found) if number else {}
    return _joined(ids, found)


def _names(key: str | Pair) -> Pair | tuple[str]:
    return (key,) if isinstance(key, str) else key


def _joined(
    ids: Mapping[str | Pair, pa.Array], found: Mapping[str | Pair, list[pa.Array]]
) -> dict[str | Pair, pa.Array]:
    return {name: pa.concat_arrays([ids[name][:0], *parts]) for name, parts in found.items()}


def _has(key: str | Pair, table: pa.Table, ids: pa.Array, layout: Layout) -> pa.Array | None:
    """Returns those of some ids that a column has, or a pair of columns; None where one is missing, or has another type
    than in the sample."""
    read = [each for name in _names(key) if (each := _read(name, table, layout))]
    if len(read) < len(_names(key)):
        return None
    made = read[0] if isinstance(key, str) else paired(*read)
    if made.kind == "null":
        return ids[:0]
    values = made.values if made.values.type == ids.type else made.values.cast(pa.large_string())
    if values.type != ids.type:
        return None
    return values.filter(pc.is_in(values, value_set=ids)).unique()


def _read(name: str, table: pa.Table, layout: Layout) -> Values | None:
    if name not in table.column_names:
        return None
    read = values_of(name, table.column(name).combine_chunks(), layout.format)
    made = typed(name, read, is_csv=layout.format == "csv") if isinstance(read, Values) else None
    return None if made is None or made.is_list else made
