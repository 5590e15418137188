"""What a draft does for calibrated predictions: rows that are held out to fit it on, and the band of its gate."""

from datetime import timedelta
from math import ceil, sqrt

from sangam.pipelines.drafting.guessing import Guesses
from sangam.pipelines.drafting.layout import Layout
from sangam.pipelines.drafting.rates import Rate
from sangam.pipelines.drafting.sample import Sample
from sangam.schemas.spec.data import TRAIN, VALIDATION

FEWEST_OF_LABEL = 1500
"""Fewest rows of the rarer label to fit a calibration on."""
TRAIN_DAYS_FOR_EACH = 10
"""Train days for each day that is held out."""
MOST_HELD_OUT = 0.1
"""Largest share of the train rows that is held out where there are no days. Where it has fewer rows of a label, early
stopping cost AUC, and calibrations were no better (docs/quality.md#a-share-of-the-train-rows)."""
SLACK, MOST_SLACK = 0.1, 0.5
"""Least and largest distance of predicted over observed from 1 that a gate allows."""
DEVIATIONS = 2.0
"""How many standard deviations of the evaluated label's rate, by chance and by day, a gate allows."""


def held_out_days(layout: Layout, sample: Sample, guesses: Guesses, train_days: int) -> int:
    """Returns how many of the newest train days calibrate the model, before it is trained on them too; 0 for none.

    As few as have enough rows of the rarer label of each binary task, if these are few of all. None of positives: their
    validation split has more candidates per positive than the train split, so nothing may be trained on it.
    """
    if not layout.is_by_day or not guesses.rates or guesses.positives:
        return 0
    rows_of_day = sample.num_rows_of_logs / ((layout.days[-1] - layout.days[0]).days + 1)
    days = ceil(FEWEST_OF_LABEL / max(1e-9, rows_of_day * _rarest(guesses)))
    return days if days * TRAIN_DAYS_FOR_EACH <= train_days else 0


def held_out_share(layout: Layout, sample: Sample, guesses: Guesses, eval_fraction: float) -> float:
    """Returns the share of the train rows that does the same in logs without days, in hundredths; 0 for none.

    None beside validation files, nor of positives.
    """
    if layout.is_by_day or VALIDATION in layout.patterns or not guesses.rates or guesses.positives:
        return 0.0
    trained = 1 - eval_fraction if layout.is_table else _share_of(layout, TRAIN)
    rows = sample.num_rows_of_logs * trained
    share = ceil(100 * FEWEST_OF_LABEL / max(1e-9, rows * _rarest(guesses))) / 100
    return share if share <= MOST_HELD_OUT else 0.0


def days_to_tune(layout: Layout, train_days: int, eval_days: int) -> int:
    """Returns the least number of the newest train days of which one has logs; 0 if none is left to train on."""
    first_eval = layout.days[-1] - timedelta(days=eval_days - 1)
    trained = [day for day in layout.days if first_eval - timedelta(days=train_days) <= day < first_eval]
    return (first_eval - trained[-1]).days if len(trained) > 1 else 0


def is_calibrated(layout: Layout, sample: Sample, guesses: Guesses, held_out: float) -> bool:
    """Returns whether tasks get a calibration: on what is held out, or on a validation split that is there."""
    if VALIDATION not in layout.patterns:
        return held_out > 0
    rows = sample.num_rows_of_logs * _share_of(layout, VALIDATION)
    return bool(guesses.rates) and rows * _rarest(guesses) >= FEWEST_OF_LABEL


def band(rate: Rate, num_rows: float, num_days: int) -> tuple[float, float] | None:
    """Returns the ends of a gate on predicted over observed; None where the evaluated rows would say nothing.

    Args:
        rate: rate of positives.
        num_rows: number of rows to evaluate on.
        num_days: their number of days; 1 where it is not known.
    """
    if not 0 < rate.share < 1 or num_rows < 1:
        return None
    deviation = sqrt((1 - rate.share) / (rate.share * num_rows) + rate.swing**2 / num_days)
    slack = max(SLACK, ceil(20 * DEVIATIONS * deviation) / 20)
    return None if slack > MOST_SLACK else (round(1 - slack, 2), round(1 + slack, 2))


def eval_rows(layout: Layout, sample: Sample, eval_days: int, eval_fraction: float) -> float:
    """Returns about how many rows a first run evaluates on."""
    if layout.is_by_day:
        span = (layout.days[-1] - layout.days[0]).days + 1
        return sample.num_rows_of_logs * eval_days / span
    share = eval_fraction if layout.is_table else _share_of(layout, "eval")
    return sample.num_rows_of_logs * share


def _share_of(layout: Layout, split: str) -> float:
    """Returns the share of the bytes of all files that a split has."""
    every = sum(file.size_bytes for file in layout.files)
    return sum(file.size_bytes for file in layout.groups[split]) / max(1, every)


def _rarest(guesses: Guesses) -> float:
    return min(rate.rarer for rate in guesses.rates.values())
