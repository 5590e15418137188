"""Distances of distributions: one definition for the data gate, which compares splits, and for servers."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Shape suffixes: E edges, ascending; K bins; V values.

BINS = 20
"""Most bins of numbers, of about equal shares of the training's."""


def cuts_of(edges_E: Floats, at_most_E: Floats) -> Floats:
    """Returns where bins of about equal shares end: at edges, at which the shares are known.

    A number with a large share is alone in its bin. Where all numbers are equal, what is lower has a bin, too.

    Args:
        edges_E: ascending numbers, of those that were counted.
        at_most_E: share of the numbers that are at most each.
    """
    is_known_E = np.isfinite(edges_E) & (at_most_E > 0)
    edges_E, at_most_E = edges_E[is_known_E], at_most_E[is_known_E]
    if not edges_E.size:
        return edges_E
    if edges_E.size == 1:
        return np.array([np.nextafter(edges_E[0], -np.inf), edges_E[0]])
    wanted = np.linspace(0, 1, BINS + 1)[1:-1]
    after = np.clip(np.searchsorted(at_most_E, wanted), 1, len(edges_E) - 1)
    is_nearer_before = wanted - at_most_E[after - 1] < at_most_E[after] - wanted
    return np.unique(edges_E[after - is_nearer_before])


def shares_of(cuts: Floats, edges_E: Floats, at_most_E: Floats) -> Floats:
    """Returns the share of each bin; between edges numbers count as evenly spread."""
    return np.diff([0.0, *np.interp(cuts, edges_E, at_most_E, left=0.0, right=1.0), 1.0])


def jensen_shannon(p_K: Floats, q_K: Floats) -> float:
    """Returns the Jensen-Shannon divergence, base 2: 0 if equal, 1 if disjoint.

    Reference: Lin, Divergence measures based on the Shannon entropy, 1991, eq. 4.1.
    """
    middle_K = (p_K + q_K) / 2
    terms = (side_K[side_K > 0] * np.log2(side_K[side_K > 0] / middle_K[side_K > 0]) for side_K in (p_K, q_K))
    return float(sum(map(np.sum, terms)) / 2)


def l_infinity(p_V: Floats, q_V: Floats) -> float:
    """Returns the largest difference of a value's share; 0 without values."""
    return float(np.max(np.abs(p_V - q_V), initial=0.0))
