"""From guesses by column to the features of a spec: names, tables of lists, and features of two columns."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sangam.pipelines.drafting.crosses import pair_of_ids, price_of_id
from sangam.pipelines.drafting.guesses import Guess
from sangam.pipelines.drafting.lists import match_of, weights_for
from sangam.pipelines.drafting.names import name_of
from sangam.pipelines.drafting.passing import Days
from sangam.pipelines.drafting.tables import with_table
from sangam.pipelines.drafting.times import Times
from sangam.pipelines.drafting.values import Values

_ORDER = ("id", "cross", "count", "ids", "sequence", "match", "time", "age", "vector", "numeric")
_HOURS, _HAS_HOUR = 24, 0.45
"""Least share of rows in which a column is as many hours later than the event: summer time halves them."""


def named(guesses: Sequence[Guess], taken: set[str]) -> list[Guess]:
    """Gives each guess a different name: the suggested one, or its column's."""
    named = []
    for guess in guesses:
        name = name_of(guess.name or guess.column, taken)
        taken.add(name)
        settings = dict(guess.settings)
        if name != guess.column and settings["kind"] not in ("age", "match", "time"):
            settings = {"kind": settings.pop("kind"), "column": guess.column, **settings}
        named.append(replace(guess, name=name, settings=settings))
    return named


def finished(
    kept: Sequence[Guess],
    columns: Mapping[str, Values],
    times: Times,
    labels: Mapping[str, str],
    days: Days,
) -> tuple[list[Guess], list[Guess]]:
    """Adds names, tables, matches, crosses, weights of lists and the hour to the guesses.

    Returns:
        The features, grouped by kind, and matches that are left out.
    """
    weights = [guess.column for guess in kept if guess.kind == "weights"]
    ids = [guess for guess in kept if guess.kind == "id"]
    taken = {*(guess.name for guess in ids), *labels}
    tables = {guess.settings["table"] for guess in ids}
    others = []
    for guess in named([guess for guess in kept if guess.kind not in ("id", "weights")], taken):
        if guess.kind in ("ids", "sequence"):
            shared = guess.settings.get("table", "")
            table = str(shared) if shared in tables else name_of(guess.name, tables)
            tables.add(table)
            guess = _with_tables_beside(with_table(guess, table), tables)
        others.append(_with_weights(guess, weights, columns))
    features = [*ids, *others]
    matches = [match_of(guess, ids, [*taken], columns) for guess in others if guess.kind == "sequence"]
    features += [match for match in matches if match and match.kind == "match"]
    # Not of positives alone: a sampled item has the price of the row, and a user chooses no item that they have not
    # chosen: the pairs would give away what is sampled.
    features += _crosses(ids, others, labels, columns, days, [*taken, *tables]) if labels else []
    hour = _hour(times, columns, [*taken])
    features += [hour] if hour else []
    left_out = [match for match in matches if match and match.kind != "match"]
    return sorted(features, key=lambda guess: _ORDER.index(guess.kind)), left_out


def _crosses(
    ids: Sequence[Guess],
    others: Sequence[Guess],
    labels: Iterable[str],
    columns: Mapping[str, Values],
    days: Days,
    taken: Sequence[str],
) -> list[Guess]:
    price = price_of_id(ids, others, labels, columns, days, taken)
    return [*([price] if price else []), *pair_of_ids(ids, labels, columns, days, taken)]


def _with_tables_beside(guess: Guess, tables: set[str]) -> Guess:
    """Gives each id of a sequence's events a table, unless it shares one."""
    beside = {}
    for name, part in guess.settings.get("beside", {}).items():
        beside[name] = dict(part)
        if part["kind"] == "id":
            shared = part.get("table", "")
            table = str(shared) if shared in tables else name_of(name, tables)
            tables.add(table)
            beside[name]["table"] = table
    return replace(guess, settings={**guess.settings, "beside": beside}) if beside else guess


def _with_weights(guess: Guess, weights: Sequence[str], columns: Mapping[str, Values]) -> Guess:
    if guess.kind != "ids":
        return guess
    own = next((name for name in weights if weights_for(name, columns) == guess.column), None)
    return replace(guess, settings={**guess.settings, "weights": own}) if own else guess


def _is_hour(values: Values, hours: Any) -> bool:
    """Returns whether a column of 0 to 24 is an hour, of any one zone in most rows."""
    if values.kind != "int" or values.is_list or not len(values.present_numbers):
        return False
    if values.present_numbers.min() < 0 or values.present_numbers.max() > _HOURS:
        return False
    later = (values.numbers - hours)[values.is_present].astype(np.int64) % _HOURS
    return bool(np.bincount(later).max() > _HAS_HOUR * len(later))


def _hour(times: Times, columns: Mapping[str, Values], taken: Sequence[str]) -> Guess | None:
    """Returns the hour of the event if it varies and no column has it."""
    if not times.event:
        return None
    hours = columns[times.event].numbers // 3600 % 24
    if len(set(hours.tolist())) < 2 or any(_is_hour(values, hours) for values in columns.values()):
        return None
    settings = {"kind": "time", "column": times.event, "part": "hour"}
    return Guess(times.event, "time", "hour of the event (UTC)", name_of("hour", taken), settings)
