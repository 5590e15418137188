"""Finds the slice of every example, by codes of the distinct values: no loop over rows."""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sangam.components.steps.evaluator.metrics.block import Block
from sangam.components.steps.evaluator.metrics.draws import Draws
from sangam.components.steps.evaluator.metrics.group_sums import SliceCodes
from sangam.components.steps.evaluator.metrics.tally import Measures, Tally
from sangam.components.steps.evaluator.metrics.totals_histogram import is_first
from sangam.components.steps.evaluator.plan import SliceSpec

_LEAST_COUNTED = 4096
"""Minimum examples of a slice that are counted at once; fewer wait for more of their slice."""


def slice_codes(spec: SliceSpec, values: Mapping[str, pa.Array], size: int) -> SliceCodes:
    """Returns the slice of each example: an example belongs to a slice if it has a value of all its features.

    Args:
        spec: the slices' features.
        values: first value of each example, by feature; null without one.
        size: number of examples.
    """
    codes, texts = np.zeros(size, np.int64), [()]
    for name in sorted(spec):
        if name not in values:
            return SliceCodes([], np.full(size, -1, np.int32))
        own, own_texts = _codes_of(values[name], spec[name])
        # Only existing combinations, so that codes stay small for any number of features.
        present, combined = np.unique(
            np.where((codes < 0) | (own < 0), -1, codes * len(own_texts) + own), return_inverse=True
        )
        num_absent = int(len(present) > 0 and present[0] < 0)
        codes = combined - num_absent
        pairs = [divmod(code, len(own_texts)) for code in present[num_absent:].tolist()]
        texts = [(*texts[left], (name, own_texts[right])) for left, right in pairs]
    return SliceCodes([slice_key(pairs) for pairs in texts], codes.astype(np.int32))


def slice_key(pairs: Sequence[tuple[str, str | int]]) -> str:
    """Returns the name of a slice within Beam, from its features and their values."""
    return json.dumps(pairs, ensure_ascii=False)


def _codes_of(values: pa.Array, wanted: str | None) -> tuple[NDArray[np.int64], list[str | int]]:
    """Returns the code of each example's value, -1 without one or with another than wanted, and the values by code."""
    encoded = values.dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    # Texts of Latin-1 stay apart: replaced bytes would make one slice of them.
    texts = [
        value.decode(errors="backslashreplace") if isinstance(value, bytes) else value
        for value in encoded.dictionary.to_pylist()
    ]
    if wanted is None:
        return codes, texts
    is_wanted = np.array([str(text) == wanted for text in texts] + [False], bool)
    return np.where(is_wanted[codes], codes, -1), texts


def count(block: Block, every: Sequence[SliceCodes], measures: Measures, tallies: dict[str, Tally]) -> None:
    """Counts examples for each of their slices.

    Args:
        block: the examples.
        every: slices of the examples, by each specification.
        measures: counts of every slice.
        tallies: tallies by slice, to add to.
    """
    draws = Draws.of(block.units, measures.replicates, measures.seed)
    for codes in every:
        few = {}
        for name, rows in _rows_by_slice(codes):
            if len(rows) < _LEAST_COUNTED:
                few[name] = rows
                continue
            tally = tallies.setdefault(name, Tally(measures))
            if len(rows) == len(block):
                tally.add(block, draws)
            else:
                tally.add(block.where(rows), draws.where(rows))
        if few:
            _add_few(block, few, measures, tallies)


def _add_few(
    block: Block, rows_of: Mapping[str, NDArray[np.int64]], measures: Measures, tallies: dict[str, Tally]
) -> None:
    """Adds slices of few examples each, of which there can be thousands: as views of one array."""
    together = block.where(np.concatenate(list(rows_of.values())))
    start = 0
    for name, rows in rows_of.items():
        tallies.setdefault(name, Tally(measures)).add(together.where(slice(start, start + len(rows))))
        start += len(rows)


def _rows_by_slice(codes: SliceCodes) -> Iterator[tuple[str, NDArray[np.int64]]]:
    rows = codes.order(np.flatnonzero(codes.codes >= 0))
    ordered = codes.codes[rows]
    edges = [*np.flatnonzero(is_first(ordered)).tolist(), len(rows)]
    for start, end in itertools.pairwise(edges):
        yield codes.slices[ordered[start]], rows[start:end]
