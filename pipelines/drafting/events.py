"""Lists as long as a sequence's in every row: what is known of its events."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from sangam.pipelines.drafting.guesses import Guess, Settings
from sangam.pipelines.drafting.lists import MOST_OF_SEQUENCE
from sangam.pipelines.drafting.names import AMOUNTS, name_of, words_of
from sangam.pipelines.drafting.times import are_seconds
from sangam.pipelines.drafting.values import Values

_LATER = 0.01
"""Largest share of events after their row: with more, their times are those of something else."""
_SMALL = 4.0
"""A median below which an amount's unit is not 1, so that it has more than one or two buckets."""


def of_one(lists: Mapping[str, Guess], columns: Mapping[str, Values], event: str) -> dict[str, Guess]:
    """Returns the guesses, those of aligned lists as one sequence: ids, with further columns `beside` and `times`.

    Args:
        lists: guesses of the columns of lists.
        columns: values of all columns.
        event: column of the rows' time; empty without.
    """
    made, groups = dict(lists), dict[bytes, list[str]]()
    for name in lists:
        lengths = columns[name].lengths
        # Lists of one length may be as long as each other by chance.
        if len(set(lengths[lengths > 0].tolist())) > 1:
            groups.setdefault(lengths.tobytes(), []).append(name)
    for names in groups.values():
        if len(names) > 1:
            made |= _sequence({name: lists[name] for name in names}, columns, event)
    return {name: guess for name, guess in made.items() if guess.kind != "beside"}


def _sequence(lists: Mapping[str, Guess], columns: Mapping[str, Values], event: str) -> dict[str, Guess]:
    """Returns the guesses of aligned lists: a sequence, and those of kind `beside` that are part of it."""
    times = {name: of_events for name in lists if (of_events := _times(name, columns, event)) is not None}
    ids = [name for name, guess in lists.items() if guess.kind in ("ids", "sequence") and name not in times]
    if not ids or not (times or any(lists[name].kind == "sequence" for name in ids)):
        return {}
    main = max(ids, key=lambda name: _rank(lists[name], columns[name]))
    settings: Settings = {
        "kind": "sequence",
        "type": lists[main].settings["type"],
        **({"table": lists[main].settings["table"]} if "table" in lists[main].settings else {}),
        "max_length": min(int(columns[main].lengths.max()), MOST_OF_SEQUENCE),
    }
    order = "check: the newest is first"
    if times:
        [column, of_events], *_ = times.items()
        steps = _steps(of_events, columns[main].lengths)
        is_ascending = bool(len(steps)) and (steps >= 0).mean() > (steps <= 0).mean()
        settings |= {"keep": "last"} if is_ascending else {}
        order = f"the newest is {'last' if is_ascending else 'first'} by {column}"
    parts = {name: _part(lists[name], columns[name]) for name in lists if name not in (main, *times)}
    if parts:
        settings["beside"] = {
            name_of(name): part if name_of(name) == name else {"kind": part["kind"], "column": name, **part}
            for name, part in parts.items()
        }
    if times:
        settings["times"] = {"column": column, "at": event}
    others = ", ".join(name for name in lists if name != main)
    why = lists[main].why.split("; check")[0]
    found = replace(lists[main], kind="sequence", settings=settings, why=f"{why}; as long as {others}; {order}")
    return {main: found} | {name: replace(lists[name], kind="beside") for name in lists if name != main}


def _rank(guess: Guess, values: Values) -> tuple[bool, bool, int]:
    return guess.kind == "sequence", "table" in guess.settings, values.num_different


def _part(guess: Guess, values: Values) -> Settings:
    """Returns what a column besides the ids is of each event."""
    numbers = _numbers(values)
    is_amount = numbers is not None and bool(AMOUNTS & set(words_of(guess.column)))
    if numbers is None or not (values.kind == "float" or is_amount):
        table = {"table": guess.settings["table"]} if "table" in guess.settings else {}
        return {"kind": "id", "type": guess.settings["type"], **table}
    part: Settings = {"kind": "amount"} | ({"type": "int"} if values.kind == "int" else {})
    median = float(np.median(np.abs(numbers))) if len(numbers) else 0.0
    if 0 < median < _SMALL:
        part["unit"] = float(f"{median / _SMALL:.1g}")
    return part


def _times(name: str, columns: Mapping[str, Values], event: str) -> Any:
    """Returns the seconds of events; None if a column has none, or they are later than their rows."""
    values, numbers = columns[name], _numbers(columns[name])
    if not event or values.kind == "float" or numbers is None or not are_seconds(numbers):
        return None
    at_n = np.repeat(columns[event].numbers, values.lengths)
    return numbers if (numbers > at_n).mean() <= _LATER else None


def _numbers(values: Values) -> Any:
    """Returns the numbers of all lists; None of texts that are none. Digits in CSV are texts."""
    try:
        numbers = values.values.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return None
    return numbers if np.isfinite(numbers).all() else None


def _steps(numbers_n: Any, lengths_R: Any) -> Any:
    """Returns the differences from each value of a list to its next."""
    row_n = np.repeat(np.arange(len(lengths_R)), lengths_R)
    return np.diff(numbers_n)[row_n[1:] == row_n[:-1]]
