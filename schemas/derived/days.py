"""From a run's date to the days it trains and evaluates on."""

import datetime

from schemas.spec.data import EVAL, TRAIN, VALIDATION, DayLogs

Day = datetime.date


def parse_day(text: str) -> Day:
    """Returns the day written as YYYY-MM-DD.

    Raises:
        ValueError: for anything else; dates become paths, so nothing else may pass.
    """
    try:
        day = datetime.date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"not a date (got {text!r}); write it as YYYY-MM-DD, for example 2011-11-30") from None
    if day.isoformat() != text:
        raise ValueError(f"not a date (got {text!r}); write it as YYYY-MM-DD, for example 2011-11-30")
    return day


def yesterday(today: Day) -> Day:
    """Returns the date of a run without `--date` that starts today (UTC)."""
    return today - datetime.timedelta(days=1)


def window(logs: DayLogs, date: Day) -> dict[str, list[Day]]:
    """Returns the days of each split for a run of `date`, oldest first.

    The `eval_days` end with the date, the `train_days` come before them; the newest of these are the validation
    split, which is left out if the spec has no `validation_days`.
    """
    first_eval = date - datetime.timedelta(days=logs.eval_days - 1)
    first_validation = first_eval - datetime.timedelta(days=logs.validation_days)
    first_train = first_eval - datetime.timedelta(days=logs.train_days)
    days = {TRAIN: _run_of_days(first_train, logs.train_days - logs.validation_days)}
    if logs.validation_days:
        days[VALIDATION] = _run_of_days(first_validation, logs.validation_days)
    return days | {EVAL: _run_of_days(first_eval, logs.eval_days)}


def file_pattern(pattern: str, day: Day) -> str:
    """Returns the day's file pattern: {YYYY}, {MM} and {DD} filled in."""
    return (
        pattern.replace("{YYYY}", f"{day.year:04d}")
        .replace("{MM}", f"{day.month:02d}")
        .replace("{DD}", f"{day.day:02d}")
    )


def _run_of_days(first: Day, count: int) -> list[Day]:
    return [first + datetime.timedelta(days=offset) for offset in range(count)]
