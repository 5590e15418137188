"""Columns that reveal a label: they are known only after the event, and so not features."""

from typing import Any

import numpy as np

from pipelines.drafting.values import Values

NEARLY_ALONE = 0.99
"""AUC of a single column above which it counts as a form of the label."""
MIN_OF_CLASS = 20
"""Fewest rows with each label in each half of the sample."""
_BINS = 256
_MOST_TEXTS = 1000
_SHARE_FILLED = 0.2


def leak_of(values: Values, label: Values) -> str:
    """Returns the reason why a column reveals a label, or an empty text.

    Args:
        values: values of the column.
        label: label of the same rows, a number.
    """
    known = label.is_present
    target = label.numbers[known]
    if not label.is_binary:
        return _same_order(values, label)
    if values.is_binary and not values.num_missing:
        own = values.numbers[known]
        if (own == target).all():
            return "equals {label}"
        if (own == 1 - target).all():
            return "is {label} negated"
    if _is_filled_after(values, known, target):
        return "is empty or 0 wherever {label} is 0, and often not where it is 1"
    groups = _groups(values)
    if groups is None:
        return ""
    auc = auc_alone(groups[known], target)
    return f"alone predicts {{label}} with an AUC of {auc:.3f}" if auc >= NEARLY_ALONE else ""


def auc_alone(groups: Any, target: Any) -> float:
    """Returns the AUC of each group's mean label, computed on every other row and evaluated on the rest.

    Args:
        groups: group of each row, a number from 0.
        target: 0 or 1 for each row.

    Returns:
        From 0 to 1; 0.5 with too few rows of a class.
    """
    order = np.random.default_rng(1).permutation(len(target))
    seen, unseen = order[::2], order[1::2]
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


def _groups(values: Values) -> Any:
    """Returns the group of each row: its value, or the quantile of a number; rows without a value are one group."""
    if values.is_list:
        return np.minimum(values.lengths, _BINS)
    if values.kind == "string" or values.num_different <= _BINS:
        if values.num_different > _MOST_TEXTS:
            return None
        encoded = values.values.dictionary_encode()
        return np.asarray(encoded.indices.fill_null(len(encoded.dictionary)), np.int64)
    ends = np.unique(np.quantile(values.present_numbers, np.linspace(0, 1, _BINS + 1)[1:-1]))
    return np.where(values.is_present, np.searchsorted(ends, values.numbers, side="right"), len(ends) + 1)


def _is_filled_after(values: Values, known: Any, target: Any) -> bool:
    """Returns whether a column has values only where the label is 1, such as the time or amount of a purchase."""
    filled = (
        values.is_present if values.is_list or values.kind == "string" else values.is_present & (values.numbers != 0)
    )
    filled = filled[known]
    positives = filled[target == 1]
    if len(positives) < 2 * MIN_OF_CLASS or (target == 0).sum() < 2 * MIN_OF_CLASS:
        return False
    return not filled[target == 0].any() and positives.mean() >= _SHARE_FILLED


def _same_order(values: Values, label: Values) -> str:
    """Compares a number with a numeric label by the correlation of their ranks."""
    if values.is_list or values.kind == "string":
        return ""
    both = values.is_present & label.is_present
    if both.sum() < 4 * MIN_OF_CLASS or values.num_different < 2 or label.num_different < 2:
        return ""
    ranks = [np.unique(each.numbers[both], return_inverse=True)[1] for each in (values, label)]
    if any(each.max() == 0 for each in ranks):
        return ""
    correlation = abs(float(np.corrcoef(*ranks)[0, 1]))
    return f"moves with {{label}}: correlation of ranks {correlation:.3f}" if correlation >= NEARLY_ALONE else ""
