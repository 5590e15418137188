"""From a run's date to the days it trains and evaluates on."""

import datetime
import functools
import re

from sangam.schemas.spec.data import EVAL, TRAIN, VALIDATION, DayLogs
from sangam.schemas.spec.patterns import DAY_FIELDS

Day = datetime.date

_FIELD = re.compile(r"\{(?:YYYY|MM?|DD?)\}")


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
    """Returns the day's file pattern: its fields filled in."""
    values = {"{YYYY}": f"{day.year:04d}", "{MM}": f"{day.month:02d}", "{DD}": f"{day.day:02d}"}
    values |= {"{M}": str(day.month), "{D}": str(day.day)}
    return _FIELD.sub(lambda field: values.get(field[0], field[0]), pattern)


def any_day(pattern: str) -> str:
    """Returns a glob that matches the paths of all days, and maybe others: see `day_in`."""
    return _FIELD.sub(lambda field: "[0-9]" * _digits(field[0]) or "[0-9]*", pattern)


@functools.lru_cache(maxsize=64)
def day_expression(pattern: str) -> re.Pattern[str]:
    """Returns the expression that finds the day in a path of the pattern; a wildcard matches no slash."""
    known = {"*": "[^/]*", "?": "[^/]"}
    for part, fields in DAY_FIELDS.items():
        for field in fields:
            digits = rf"\d{{{_digits(field)}}}" if _digits(field) else r"[1-9]\d?"
            known[field] = f"(?P<{part}>{digits})"
    pieces = re.split(r"(\{[YMD]+\}|\*|\?|\[[^\]]*\])", pattern)
    return re.compile("".join(known.get(piece) or _literal(piece) for piece in pieces))


def day_in(expression: re.Pattern[str], path: str) -> Day | None:
    """Returns the day in a path; None for a path of another pattern, and an invalid day such as 2024-13-01."""
    match = expression.fullmatch(path)
    try:
        return Day(*(int(match[part]) for part in DAY_FIELDS)) if match else None
    except ValueError:
        return None


def _digits(field: str) -> int:
    """Returns the fixed number of digits of a field; 0: without leading zeros."""
    return len(field) - 2 if len(field) > 3 else 0


def _literal(piece: str) -> str:
    """Returns a piece without wildcards, or a set of characters, as an expression."""
    return piece.replace("[!", "[^", 1) if re.fullmatch(r"\[.+\]", piece) else re.escape(piece)


def _run_of_days(first: Day, count: int) -> list[Day]:
    return [first + datetime.timedelta(days=offset) for offset in range(count)]
