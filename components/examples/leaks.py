"""How well one column alone predicts a label: a column that tells it is known only after the event."""

import functools
from typing import Any

import numpy as np

NEARLY_ALONE = 0.99
"""AUC of a single column above which it counts as a form of the label."""
MIN_OF_CLASS = 20
"""Fewest rows with each label in each half of the sample."""
BINS = 256
"""Most groups of a column's numbers: its values, or its quantiles."""
MOST_TEXTS = 1000
"""Most different texts of a column that is judged."""


def auc_alone(groups: Any, target: Any) -> float:
    """Returns the AUC of each group's mean label, computed on every other row and evaluated on the rest.

    Args:
        groups: group of each row, a number from 0.
        target: 0 or 1 for each row.

    Returns:
        From 0 to 1; 0.5 with too few rows of a class.
    """
    seen, unseen = _halves(len(target))
    for half in (seen, unseen):
        if min(target[half].sum(), (1 - target[half]).sum()) < MIN_OF_CLASS:
            return 0.5
    size = int(groups.max()) + 1
    mean = target[seen].mean()
    scores = (np.bincount(groups[seen], target[seen], size) + mean) / (np.bincount(groups[seen], minlength=size) + 1)
    _, ranks = np.unique(scores[groups[unseen]], return_inverse=True)
    positives = np.bincount(ranks, target[unseen])
    negatives = np.bincount(ranks, 1 - target[unseen])
    below = np.cumsum(negatives) - negatives / 2
    return float((positives * below).sum() / (positives.sum() * negatives.sum()))


@functools.lru_cache(maxsize=8)
def _halves(size: int) -> tuple[Any, Any]:
    order = np.random.default_rng(1).permutation(size)
    return order[::2], order[1::2]
