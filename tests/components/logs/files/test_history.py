"""Days that are read only for what happened on them: which they are, and that they stop nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from sangam.components.logs.files.local_files import LocalStorage
from sangam.components.logs.files.resolve import Files, fingerprint, resolve, without
from sangam.schemas.spec import Inputs
from tests.components.logs.files.test_resolve import touch
from tests.components.logs.sample_logs import day_logs

DAYS = [f"2024-03-{day:02d}" for day in range(1, 9)]
_NO_HISTORY = {"kind": "numeric", "normalize": "zscore"}


def _count(days: int | None) -> dict[str, Any]:
    return {"kind": "count", "by": {"user": "string"}, "days": days}


def _resolved(root: Path, *features: dict[str, Any], after: str = "") -> Files:
    named = {f"feature_{number}": feature for number, feature in enumerate(features)}
    document = {"features": named, "tasks": {"like": {"kind": "binary"}}}
    inputs = Inputs.model_validate_json(json.dumps(document))
    # Trains on the 5th, 6th and 7th.
    return resolve(day_logs(train_days=3), DAYS[-1], str(root), LocalStorage(), after=after, inputs=inputs)


def _history(files: Files) -> list[str]:
    return [str(file.day)[-2:] for file in files.history]


@pytest.mark.parametrize(
    ("features", "after", "history"),
    [
        ([_NO_HISTORY], "", []),
        ([_count(2)], "", ["03", "04"]),
        ([_count(2), _count(3), _NO_HISTORY], "", ["02", "03", "04"]),
        ([_count(3660)], "", ["01", "02", "03", "04"]),
        # All of the window: what a base has learned of it, and nothing before.
        ([_count(None)], "", []),
        ([_count(None)], DAYS[5], ["05", "06"]),
        ([_count(1)], DAYS[5], ["06"]),
        ([_NO_HISTORY], DAYS[5], []),
    ],
)
def test_the_days_before_the_first_trained_one_are_read_as_far_as_a_feature_looks_back(
    tmp_path: Path, features: list[dict[str, Any]], after: str, history: list[str]
) -> None:
    touch(tmp_path, *(f"{day}/a.parquet" for day in DAYS))
    files = _resolved(tmp_path, *features, after=after)
    assert _history(files) == history
    assert set(files.splits) == {"train", "eval"}
    assert {file.split for file in files.files} == {"train", "eval"}
    assert set(files.history) <= set(files.all_files)


def test_earlier_days_without_logs_stop_nothing_and_are_no_missing_days(tmp_path: Path) -> None:
    touch(tmp_path, *(f"{day}/a.parquet" for day in DAYS if day not in DAYS[1:3]))
    files = _resolved(tmp_path, _count(4))
    assert _history(files) == ["01", "04"]
    assert files.missing_days == ()
    assert without(files, day_logs(train_days=3), []) == files


def test_a_change_of_an_earlier_day_changes_the_fingerprint(tmp_path: Path) -> None:
    touch(tmp_path, *(f"{day}/a.parquet" for day in DAYS))
    files = _resolved(tmp_path, _count(1))
    digests = dict.fromkeys((file.path for file in files.all_files), "digest")
    changed = digests | {str(tmp_path / DAYS[3] / "a.parquet"): "other"}
    assert fingerprint(files, str(tmp_path), changed) != fingerprint(files, str(tmp_path), digests)
