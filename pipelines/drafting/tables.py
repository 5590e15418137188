"""The tables of ids: shared tables, dimensions, admission."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sangam.pipelines.drafting.crosses import pair_counts
from sangam.pipelines.drafting.guesses import Guess, Settings
from sangam.pipelines.drafting.names import ITEMS, RATES, USERS, entity_of, is_id_of, name_of, plural_of, words_of
from sangam.pipelines.drafting.values import Values

FEW_IDS, MANY_IDS = 16, 10_000
_SEEN_ONCE = 0.3
_ROWS_OF_USER = 2
_ONE_EACH = 1.02
"""Most different values for each user, on average, of what users have one of, such as a postcode."""


@dataclass(frozen=True)
class Table:
    """A table, its number of ids in the sample, and the reason for its settings."""

    settings: Settings
    num_ids: int
    why: str


def with_tables(ids: Sequence[Guess]) -> list[Guess]:
    """Gives each id its own table: `users` for `user_id`, otherwise named after the feature."""
    taken: set[str] = set()
    made = []
    for guess in ids:
        entity = entity_of(guess.column)
        table = name_of(plural_of(entity) if entity else guess.name, taken)
        taken.add(table)
        made.append(with_table(guess, table))
    return made


def with_table(guess: Guess, table: str) -> Guess:
    """Inserts the table after the type."""
    settings: Settings = {}
    for key, value in guess.settings.items():
        if key != "table":
            settings[key] = value
        if key == "type":
            settings["table"] = table
    return replace(guess, settings=settings)


def tables_of(features: Sequence[Guess], columns: Mapping[str, Values]) -> dict[str, Table]:
    """Returns the tables of the features, with settings from the number of their ids in the sample."""
    counts: dict[str, dict[str, int]] = {}
    new: set[str] = set()
    pairs = {guess.settings["table"] for guess in features if guess.kind == "cross"}
    named = user_of(features, columns)
    user = next((columns[guess.column] for guess in features if named and guess.name == named), None)
    for guess in features:
        table = guess.settings.get("table")
        if table is not None:
            new |= {table} if guess.is_mostly_new and not (user and _has_one(user, columns[guess.column])) else set()
            of_table = counts.setdefault(table, {})
            found = (
                pair_counts([*guess.settings["columns"]], columns) if table in pairs else columns[guess.column].counts
            )
            for value, number in found.items():
                of_table[str(value)] = of_table.get(str(value), 0) + number
    made = {}
    for table, of_table in counts.items():
        number = len(of_table)
        once = sum(count == 1 for count in of_table.values()) / max(1, number)
        settings: Settings = {"dim": 4 if number <= FEW_IDS else 8 if number <= MANY_IDS else 16}
        why = f"{number:,} {'id' if number == 1 else 'pairs' if table in pairs else 'ids'} in the sample"
        if number > MANY_IDS and once >= _SEEN_ONCE:
            settings["admission"] = {"kind": "count", "at_least": 2}
            why += f", {once:.0%} of them once: a row from the second occurrence on"
        if table in new:
            settings["unseen"] = "auto"
        made[table] = Table(settings, number, why)
    return made


def _has_one(user: Values, values: Values) -> bool:
    """Returns whether values are the users, or each user has one of them: then those who return are known best by their
    rows, which `unseen` would keep from learning, and new ones gain nothing (docs/quality.md)."""
    both = user.is_present & values.is_present
    users = user.codes[both]
    pairs = np.unique(users * max(1, values.num_different) + values.codes[both])
    return len(pairs) <= _ONE_EACH * len(np.unique(users))


def user_of(features: Sequence[Guess], columns: Mapping[str, Values]) -> str | None:
    """Returns the feature whose ids are users with several rows each."""
    for guess in features:
        if guess.kind == "id" and is_id_of(guess.column, USERS):
            values = columns[guess.column]
            if int(values.is_present.sum()) >= _ROWS_OF_USER * values.num_different:
                return guess.name
    return None


def has_rates(features: Sequence[Guess]) -> bool:
    """Returns whether there are ids, and a number that is named as a rate of users or items: `item_click_rate`."""
    has_ids = any("table" in guess.settings for guess in features)
    words = [set(words_of(guess.column)) for guess in features if guess.kind == "numeric"]
    return has_ids and any(RATES & each and (USERS | ITEMS) & each for each in words)
