"""What a sequence may read of its events besides their ids."""

from pathlib import Path
from typing import Any

import pytest

from sangam.schemas.derived.columns import columns, drifting_columns
from sangam.schemas.derived.ids import id_columns
from sangam.schemas.derived.process_memory import message_bytes
from sangam.schemas.problems import SpecError
from tests.errors import tells
from tests.schemas.sample_specs import loaded

ACTION = {"kind": "id", "column": "actions", "type": "string", "table": "tags"}
EVENTS: dict[str, Any] = {
    "features.recent.beside": {"action": ACTION, "seconds": {"kind": "amount"}},
    "features.recent.times": {"column": "times", "at": "shown"},
    "features.recent.positions": True,
}
ONE = {"features.recent.max_length": 1, "features.recent.encoder": {"kind": "mean"}}
# (changes of the valid spec, path of the problem, the value that it tells of)
MISTAKES: list[tuple[dict[str, Any], str, str]] = [
    ({"features.recent.beside": {"action": {**ACTION, "table": "no"}}}, "features.recent.beside.action.table", "'no'"),
    (
        {"features.recent.beside": {"action": {**ACTION, "table": "users"}}},
        "features.recent.beside.action.table",
        "(got 8 of 4)",
    ),
    (
        {"features.recent.beside": {"action": {**ACTION, "type": "int"}}},
        "features.recent.beside.action.type",
        "'tags' ... (got int)",
    ),
    (
        {"features.recent.beside": {"action": {"kind": "ids"}}},
        "features.recent.beside.action.kind",
        "(got 'ids') ... 'id', 'amount'",
    ),
    (
        {"features.recent.beside": {"seconds": {"kind": "amount", "unit": 0}}},
        "features.recent.beside.seconds.unit",
        "(got 0)",
    ),
    (
        {"features.recent.beside": {"again": {**ACTION, "column": "recent"}}},
        "features.recent.beside.again",
        "(got 'recent')",
    ),
    ({"features.recent.times": {"column": "at", "at": "at"}}, "features.recent.times.at", "(got 'at')"),
    ({"features.recent.times": {"column": "times"}}, "features.recent.times.at", "is missing"),
    (
        {
            "features.recent.positions": True,
            "features.recent.max_length": 1,
            "features.recent.encoder": {"kind": "mean"},
        },
        "features.recent.positions",
        "max_length 1",
    ),
    ({"features.recent.max_length": 4096}, "data.max_list_length", "(got 1000, they read 4096)"),
]


@pytest.mark.parametrize(("changes", "place", "value"), MISTAKES)
def test_a_mistake_is_told_at_its_key(tmp_path: Path, changes: dict[str, Any], place: str, value: str) -> None:
    with pytest.raises(SpecError) as error:
        loaded(tmp_path, changes)
    assert tells(str(error.value), place, value)


def test_all_that_is_known_of_an_event_is_as_long_as_the_ids_and_only_these_are_compared_between_days(
    tmp_path: Path,
) -> None:
    spec = loaded(tmp_path, EVENTS)
    read = {column.name: column for column in columns(spec)}
    assert {name: column.beside for name, column in read.items() if column.beside} == {
        name: ("recent",) for name in ("actions", "seconds", "times")
    }
    assert (read["times"].time, read["times"].not_after, read["shown"].time) == ("other", "shown", "event")
    assert [column.name for column in drifting_columns(spec, "recent")] == ["recent"]


def test_rows_of_further_ids_belong_to_their_table_and_count_in_the_memory_of_a_batch(tmp_path: Path) -> None:
    spec, plain = loaded(tmp_path, EVENTS).ranker(), loaded(tmp_path).ranker()
    assert id_columns(spec)["tags"] == {"tags": "string", "recent": "string", "actions": "string"}
    # 16 examples of 3 events: a key, a row of 4 floats and its gradient, an amount and an age.
    more = 16 * 3 * (8 + 2 * 4 * 4 + 4 + 4)
    # Vectors of 64 amounts, 64 ages and 4 positions, with two moments each and as much on the way.
    assert message_bytes(spec) - message_bytes(plain) == more + 4 * (64 + 64 + 4) * 4 * (2 + 2)
