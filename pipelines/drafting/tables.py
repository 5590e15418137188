"""The tables of ids: shared tables, dimensions, admission."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sangam.pipelines.drafting.crosses import TABLE_OF_PAIRS, pair_counts, pairs_of_ids
from sangam.pipelines.drafting.guesses import Guess, Settings
from sangam.pipelines.drafting.names import USERS, entity_of, is_id_of, name_of, plural_of
from sangam.pipelines.drafting.values import Values

FEW_IDS, MANY_IDS = 16, 10_000
_SEEN_ONCE = 0.3
_ROWS_OF_USER = 2
_MOST_OWNERS, _FEWEST_LISTS, _LISTS = 5, 100, 1000
"""Most columns of ids, those with the most, and about how many pairs of rows, that are looked at for whose histories
lists are; fewest pairs."""
_OWN = 0.5
"""Least share of an id's rows whose list goes on from that of the row before, without how often others' lists do."""
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
    together: list[set[str]] = []
    pairs = {guess.settings["table"] for guess in features if guess.kind == "cross"}
    of_ids = {guess.settings["table"] for guess in pairs_of_ids(features)}
    named = user_of(features, columns)
    user = next((columns[guess.column] for guess in features if named and guess.name == named), None)
    for guess in features:
        read = dict(_tables_read(guess))
        together.append(set(read))
        if guess.is_mostly_new and not (user and _has_one(user, columns[guess.column])):
            new |= set(read)
        for table, column in read.items():
            of_table = counts.setdefault(table, {})
            is_pair = table in pairs
            found = pair_counts([*guess.settings["columns"]], columns) if is_pair else columns[column].counts
            for value, number in found.items():
                of_table[str(value)] = of_table.get(str(value), 0) + number
    made = {}
    for table, of_table in counts.items():
        number = len(of_table)
        once = sum(count == 1 for count in of_table.values()) / max(1, number)
        settings: Settings = {"dim": 4 if number <= FEW_IDS else 8 if number <= MANY_IDS else 16}
        why = f"{number:,} {'id' if number == 1 else 'pairs' if table in pairs else 'ids'} in the sample"
        if table in of_ids:
            settings = {**TABLE_OF_PAIRS}
            why += f", {once:.0%} of them once: a row for each, of 52 bytes in training, which a single step moves far"
        elif number > MANY_IDS and once >= _SEEN_ONCE:
            settings["admission"] = {"kind": "count", "at_least": 2}
            why += f", {once:.0%} of them once: a row from the second occurrence on"
        if table in new:
            settings["unseen"] = "auto"
        made[table] = Table(settings, number, why)
    return _of_one_dim(made, together)


def _tables_read(guess: Guess) -> Iterator[tuple[str, str]]:
    """Yields each table of a feature with the column of its ids."""
    if "table" in guess.settings:
        yield guess.settings["table"], guess.column
    for name, part in guess.settings.get("beside", {}).items():
        if "table" in part:
            yield part["table"], part.get("column", name)


def _of_one_dim(tables: dict[str, Table], together: Sequence[set[str]]) -> dict[str, Table]:
    """Gives the tables of a sequence's ids and events, whose vectors are added, the largest dimension of them."""
    dims = {name: table.settings["dim"] for name, table in tables.items()}
    for _ in together:  # As often as a larger one may have to travel.
        for names in together:
            dims |= dict.fromkeys(names, max((dims[name] for name in names), default=0))
    return {name: replace(table, settings={**table.settings, "dim": dims[name]}) for name, table in tables.items()}


def _has_one(user: Values, values: Values) -> bool:
    """Returns whether values are the users, or each user has one of them: then those who return are known best by their
    rows, which `unseen` would keep from learning, and new ones gain nothing (docs/quality.md)."""
    both = user.is_present & values.is_present
    users = user.codes[both]
    pairs = np.unique(users * max(1, values.num_different) + values.codes[both])
    return len(pairs) <= _ONE_EACH * len(np.unique(users))


def user_of(features: Sequence[Guess], columns: Mapping[str, Values]) -> str | None:
    """Returns the feature whose ids are users with several rows each: named so, or else those whose histories are in
    the logs."""
    ids = [each for each in features if each.kind == "id"]
    ids = [each for each in ids if columns[each.column].is_present.sum() >= _ROWS_OF_USER * _different(each, columns)]
    named = next((each.name for each in ids if is_id_of(each.column, USERS)), None)
    if named:
        return named
    for history in (each for each in features if each.kind == "sequence"):
        others = [each for each in ids if each.settings["table"] != history.settings["table"]]
        for one in sorted(others, key=lambda each: -_different(each, columns))[:_MOST_OWNERS]:
            if _goes_on(columns[one.column], columns[history.column]):
                return one.name
    return None


def _different(guess: Guess, columns: Mapping[str, Values]) -> int:
    return columns[guess.column].num_different


def _goes_on(ids: Values, lists: Values) -> bool:
    """Returns whether an id's list has an event of the list in its row before, and other rows' lists do not."""
    rows = np.flatnonzero(ids.is_present & lists.is_present)
    rows = rows[np.argsort(ids.codes[rows], kind="stable")]
    earlier = np.flatnonzero(np.diff(ids.codes[rows]) == 0)
    if len(earlier) < _FEWEST_LISTS:
        return False
    earlier = earlier[:: max(1, len(earlier) // _LISTS)]
    starts = np.cumsum(lists.lengths) - lists.lengths
    first, second = rows[earlier], rows[earlier + 1]
    own, of_others = (
        np.mean(
            [
                (lists.codes[starts[at] : starts[at] + lists.lengths[at]] == lists.codes[starts[row]]).any()
                for row, at in zip(first.tolist(), places.tolist(), strict=True)
            ]
        )
        for places in (second, np.roll(second, len(second) // 2))
    )
    return bool(own - of_others >= _OWN)
