"""Columns that reveal a label: they are known only after the event, and so not features."""

from typing import Any

import numpy as np

from sangam.components.examples.leaks import BINS, MIN_OF_CLASS, MOST_TEXTS, NEARLY_ALONE, auc_alone
from sangam.pipelines.drafting.values import Values

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


def _groups(values: Values) -> Any:
    """Returns the group of each row: its value, or the quantile of a number; rows without a value are one group."""
    if values.is_list:
        return np.minimum(values.lengths, BINS)
    if values.kind == "string" or values.num_different <= BINS:
        if values.num_different > MOST_TEXTS:
            return None
        return np.where(values.codes < 0, values.num_different, values.codes)
    present = np.sort(values.present_numbers)
    # The quantiles as np.quantile has them, ten times as fast.
    places = np.linspace(0, len(present) - 1, BINS + 1)[1:-1]
    ends = np.unique(np.interp(places, np.arange(len(present)), present))
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
