"""What tables of rates and counts of earlier days need."""

from pathlib import Path
from typing import Any

from sangam.schemas.derived.history_memory import history_memory, split_rows
from tests.errors import mentions
from tests.schemas.sample_specs import loaded

PAIR = {"user_id": "string", "friend": "string"}
FEATURES: dict[str, Any] = {
    "tables": {"users": {"dim": 8}, "tags": {"dim": 4}, "pairs": {"dim": 4}},
    "features.pair": {"kind": "cross", "columns": PAIR, "table": "pairs"},
    "features.pair_before": {"kind": "count", "by": PAIR, "log": True},
    "features.like_rate": {"kind": "rate", "task": "like", "by": {"user_id": "string"}, "days": 30},
    "features.user_before": {"kind": "count", "by": {"user_id": "string"}, "days": 30},
    "features.age_before": {"kind": "count", "by": {"zip": "string"}},
}
TABLES = {"users": 100, "tags": 10, "pairs": 5_000_000}


def test_features_of_the_same_ids_share_a_table_with_as_many_rows_as_the_table_of_these_ids(tmp_path: Path) -> None:
    ranker = loaded(tmp_path, FEATURES).ranker()
    pair, user, zip_code = history_memory(ranker, TABLES, {})
    assert (pair.features, pair.rows, pair.like, pair.row_bytes) == (("pair_before",), 5_000_000, "pairs", 12)
    assert (user.features, user.rows, user.row_bytes) == (("like_rate", "user_before"), 100, 16)
    # A key and a sum; of a rate also the rows and labels of its task.
    assert (pair.transform_bytes, user.transform_bytes) == (7 * 16, 7 * 32)
    assert mentions(pair.text(), "5,000,000 rows, as table pairs: 60.0 MB ... each server")
    assert (zip_code.rows, zip_code.like) == (None, "")
    assert mentions(zip_code.text(), "--rows age_before=1e6 ... 12 B")


def test_rows_of_features_are_given_beside_those_of_tables(tmp_path: Path) -> None:
    ranker = loaded(tmp_path, FEATURES).ranker()
    given = {"users": 7, "user_before": 9, "age_before": 3, "unknown": 1}
    of_tables, of_features = split_rows(ranker, given)
    assert of_tables == {"users": 7, "unknown": 1}
    assert [each.rows for each in history_memory(ranker, TABLES, of_features)] == [5_000_000, 9, 3]
    assert not history_memory(loaded(tmp_path).ranker(), TABLES, {})
