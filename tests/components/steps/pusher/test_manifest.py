"""How pushed versions are numbered and described."""

import datetime
from pathlib import Path

import pytest

from sangam.components.steps.pusher.manifest import copy_order, day_of_version, list_files, next_version
from sangam.schemas.errors import UserError
from tests.errors import place_and_value

TODAY = datetime.date(2024, 2, 29)


def test_version_is_the_last_evaluation_day_and_a_number() -> None:
    days = {"train": ["2011-12-31"], "eval": ["2011-11-29", "2011-11-30"]}
    assert next_version(day_of_version(days, TODAY), []) == "20111130001"


def test_data_without_days_takes_the_date_of_the_push() -> None:
    assert day_of_version({}, TODAY) == "20240229"


def test_next_version_is_above_all_of_its_day_even_where_one_was_removed() -> None:
    taken = ["20111130001", "20111130003", "20111201009", ".tmp-20111130007-ab", "assets", "20111130"]
    assert next_version("20111130", taken) == "20111130004"


def test_a_day_has_at_most_999_versions() -> None:
    with pytest.raises(UserError, match=place_and_value("push", "20111130 ... 999 ... (got one more)")):
        next_version("20111130", ["20111130999"])


def test_saved_model_is_copied_last() -> None:
    assert copy_order(["variables/a", "saved_model.pb", "z.txt"]) == ["variables/a", "z.txt", "saved_model.pb"]


def test_manifest_lists_every_file_but_itself(tmp_path: Path) -> None:
    (tmp_path / "variables").mkdir()
    (tmp_path / "variables" / "data").write_bytes(b"abc")
    (tmp_path / "manifest.json").write_text("{}")
    (entry,) = list_files(tmp_path).items()
    assert entry[0] == "variables/data"
    assert entry[1].bytes == 3
    assert entry[1].sha256 == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
