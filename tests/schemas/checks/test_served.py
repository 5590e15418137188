"""What a spec says of the log of requests and of data of kind `served`: columns that the log does not have."""

from pathlib import Path
from typing import Any

import pytest

from sangam.schemas.derived.columns import columns
from sangam.schemas.derived.sources import columns_read_of_log
from sangam.schemas.loading import load_spec
from sangam.schemas.problems import SpecError
from sangam.schemas.spec.data import DayLogs
from tests.errors import tells
from tests.schemas.sample_specs import changed, loaded, write

CLICKS = {
    "kind": "actions",
    "pattern": "clicks/{YYYY}-{MM}-{DD}/*.parquet",
    "format": "parquet",
    "keys": {"request_id": {"type": "string"}},
    "time": "at",
    "window_s": 3600,
    "columns": {"like": {"take": "happened"}, "rating": {"take": "sum", "column": "stars"}},
}
PEOPLE = {
    **{name: value for name, value in CLICKS.items() if name not in ("kind", "window_s")},
    "kind": "table",
    "keys": {"user_id": {"type": "string"}},
    "max_age_days": 7,
    "columns": {"age": {}},
}
SERVED = {
    "event_time": "shown",
    "data": {"kind": "served", "log": "requests", "train_days": 2, "sources": {"clicks": CLICKS}},
    "serving": {"log": {"share": 0.1}},
}

MISTAKES: list[tuple[dict[str, Any], str, str]] = [
    ({"serving.log.share": 0}, "serving.log.share", "got 0"),
    ({"serving.log.candidates": "some"}, "serving.log.candidates", "got 'some'"),
    ({"serving.log.max_size": "much"}, "serving.log.max_size", "got 'much'"),
    ({"serving.log.redact": {"nobody": "drop"}}, "serving.log.redact.nobody", "got 'nobody' ... user_id"),
    ({"serving.log.redact": {"age": "hash"}}, "serving.log.redact.age", "got hash"),
    ({"serving.log.redact": {"user_id": "hash"}}, "serving.log.redact.user_id", "got hash"),
    ({"features.age.column": "served_at"}, "serving.log", "got served_at"),
    ({"serving.shadow": {"share": 0.2}}, "serving.shadow.share", "got 0.2 of 0.1"),
    ({"serving": {"shadow": {"share": 0.2}}}, "serving.shadow", "got no serving.log"),
    ({"serving.shadow": {"share": 0.1}}, "serving.shadow", "no effect ... push.after"),
    ({"serving.shadow": {"share": 0}}, "serving.shadow.share", "got 0"),
    ({"data.sources": {}}, "data", "'like'"),
    ({"data.sources.clicks.keys": {"session": {"type": "string"}}}, "data", "'session'"),
    ({"data.validation_days": 2}, "data.validation_days", "got 2"),
    ({"data.format": "csv"}, "data.format", "got 'csv'"),
    ({"data.sources.people": PEOPLE | {"missing": "drop"}}, "data.sources.people.missing", "got 'drop'"),
    (
        {"data.sources.people": PEOPLE | {"marker": "{YYYY}-{MM}-{DD}/_DONE"}},
        "data.sources.people.marker",
        "not joined ... _DONE",
    ),
    ({"data.sources.people": PEOPLE | {"columns": {"height": {}}}}, "data.sources.people.columns.height", "'height'"),
    ({"data.format": "prediction_log"}, "data", "{YYYY}, {MM} and {DD}"),
    (
        {"data.format": "prediction_log", "data.log": "{YYYY}-{MM}-{DD}/*", "event_time": "served_delta"},
        "data.format",
        "no column 'served_delta' (got prediction_log)",
    ),
    (
        {
            "data.sources.people": PEOPLE | {"keys": {"session": {"type": "string"}}},
            "gates.1": {"skew": "features", "at_most": 0},
        },
        "gates[1].skew",
        "got session",
    ),
]


@pytest.mark.parametrize(("changes", "place", "value"), MISTAKES, ids=[place for _, place, _ in MISTAKES])
def test_mistake_is_told_with_its_place(tmp_path: Path, changes: dict[str, Any], place: str, value: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_spec(write(tmp_path / "spec.yaml", changed(SERVED | changes)))
    assert tells(str(caught.value), place, value), str(caught.value)


def test_served_requests_are_read_as_logs_by_day(tmp_path: Path) -> None:
    spec = loaded(tmp_path, SERVED | {"online": {}, "training.mode": "incremental"})
    assert spec.logs.kind == "days"
    assert spec.logs.pattern == "requests/{YYYY}-{MM}-{DD}/*/*.parquet"
    assert spec.logs.sources.keys() == {"clicks"}


def test_tables_are_for_the_gate_of_skew_alone(tmp_path: Path) -> None:
    gates = [{"task": "like", "metric": "auc", "at_least": 0.6}, {"skew": "features", "at_most": 0.001}]
    spec = loaded(tmp_path, SERVED | {"data.sources.people": PEOPLE, "gates": gates})
    assert isinstance(spec.logs, DayLogs)
    assert isinstance(spec.logs_with_tables, DayLogs)
    assert spec.logs.sources.keys() == {"clicks"}
    assert spec.logs_with_tables.sources.keys() == {"clicks", "people"}
    assert "age" in {column.name for column in columns_read_of_log(spec.logs, columns(spec))}


def test_records_of_tensorflow_serving_may_have_columns_that_no_feature_reads(tmp_path: Path) -> None:
    of_records = {"data.format": "prediction_log", "data.log": "tfs/{YYYY}-{MM}-{DD}/*.gz", "event_time": "served_at"}
    keys = {"data.sources.clicks.keys": {"session": {"type": "string"}}}
    spec = loaded(tmp_path, SERVED | of_records | keys)
    assert spec.logs.kind == "days"
    assert (spec.logs.format, spec.logs.pattern) == ("prediction_log", "tfs/{YYYY}-{MM}-{DD}/*.gz")


def test_redacted_columns_do_not_matter_to_other_logs(tmp_path: Path) -> None:
    spec = loaded(tmp_path, {"serving": {"log": {"share": 1.0, "redact": {"user_id": "hash", "age": "drop"}}}})
    assert spec.serving.log is not None
    assert spec.serving.log.max_bytes == 20 * 10**9
