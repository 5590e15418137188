"""What a run is asked to do is checked before anything heavy is loaded."""

import datetime
import os
from dataclasses import replace
from pathlib import Path

import pytest

from sangam.pipelines.local.request import RunRequest, check_logs, check_request, run_id
from sangam.schemas.errors import UserError
from sangam.schemas.loading import load_spec
from sangam.schemas.spec import Spec, digest
from sangam.schemas.spec.beam import DataflowBeam
from sangam.schemas.spec.data import Arrival
from tests.errors import place_and_value
from tests.object_stores import Bucket
from tests.paths import SPECS


@pytest.fixture(scope="module")
def by_day() -> Spec:
    return load_spec(SPECS / "short_video.yaml")


@pytest.fixture(scope="module")
def by_split() -> Spec:
    return load_spec(SPECS / "census_income.yaml")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


def test_a_request_has_absolute_folders_and_its_root_is_made(by_day: Spec, data: Path, tmp_path: Path) -> None:
    request = check_request(by_day, "2024-03-07", data, tmp_path / "deep" / "root")
    assert request.date == datetime.date(2024, 3, 7)
    assert (request.data_root, request.root) == (str(data.resolve()), (tmp_path / "deep" / "root").resolve())
    assert request.root.is_dir()


def test_logs_by_day_need_a_date(by_day: Spec, data: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=place_and_value("--date", "is missing ... 'short_video'")):
        check_request(by_day, None, data, tmp_path / "root")


@pytest.mark.parametrize("date", ["2024-3-7", "20240307", "yesterday", "2024-02-30", ""])
def test_a_malformed_date_is_refused(by_day: Spec, data: Path, tmp_path: Path, date: str) -> None:
    with pytest.raises(UserError, match=place_and_value("--date", f"(got {date!r}) ... YYYY-MM-DD")):
        check_request(by_day, date, data, tmp_path / "root")


def test_a_date_before_whose_window_there_is_no_calendar_is_refused(by_day: Spec, data: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=place_and_value("--date", "(got 0001-01-01)")):
        check_request(by_day, "0001-01-01", data, tmp_path / "root")


def test_dataflow_is_refused_where_logs_and_root_are_folders(by_day: Spec, data: Path, tmp_path: Path) -> None:
    dataflow = DataflowBeam(
        runner="dataflow", project="p1-x", region="europe-west4", temp_location="gs://bucket/t", image="sangam:1"
    )
    spec = by_day.model_copy(update={"beam": dataflow})
    with pytest.raises(UserError, match=place_and_value("--data", f"(got {data} and beam: dataflow)")):
        check_request(spec, "2024-03-07", data, tmp_path / "root")


def looked(spec: Spec, data: Path, *days: str, date: str = "2024-03-07", today: str = "2024-04-01") -> None:
    for day in days:
        (data / day).mkdir()
        (data / day / "a.parquet").touch()
    request = RunRequest(spec, datetime.date.fromisoformat(date), str(data), data.parent / "root")
    check_logs(request, datetime.date.fromisoformat(today))


DAYS = [f"2024-03-0{day}" for day in range(1, 8)]


def test_a_date_without_logs_is_told_with_the_newest_that_there_are(by_day: Spec, data: Path) -> None:
    text = place_and_value("data.pattern: ...", "(got none from 2024-03-01 to 2024-03-07)")
    with pytest.raises(UserError, match=text):
        looked(by_day, data)
    text = place_and_value("data.pattern: ...", "(got none from 2025-02-23 to 2025-03-01) ... 2024-03-07")
    with pytest.raises(UserError, match=text):
        looked(by_day, data, *DAYS, "2024-13-45", date="2025-03-01")


def test_the_whole_window_must_be_there_but_for_a_base_that_may_know_it(by_day: Spec, data: Path) -> None:
    with pytest.raises(UserError, match=place_and_value("data.pattern: ...", "(got none for 2024-03-01, 2024-03-02)")):
        looked(by_day, data, *DAYS[2:])
    training = by_day.training.model_copy(update={"mode": "incremental"})
    incremental = by_day.model_copy(update={"training": training})
    looked(incremental, data)
    two = by_day.data.model_copy(update={"eval_days": 2})
    (data / DAYS[5] / "a.parquet").unlink()
    with pytest.raises(UserError, match=place_and_value("data.pattern: ...", "(got none for 2024-03-06)")):
        looked(incremental.model_copy(update={"data": two}), data)
    (data / DAYS[6] / "a.parquet").unlink()
    with pytest.raises(
        UserError, match=place_and_value("data.pattern: ...", "(got none for 2024-03-07) ... 2024-03-07")
    ):
        looked(incremental, data)


def test_logs_that_are_waited_for_are_not_looked_for(by_day: Spec, data: Path) -> None:
    arrival = Arrival(marker="{YYYY}-{MM}-{DD}/_SUCCESS")
    waits = by_day.model_copy(update={"data": by_day.data.model_copy(update={"arrival": arrival})})
    looked(waits, data, today="2024-03-08")
    with pytest.raises(UserError, match=place_and_value("data.pattern: ...", "_SUCCESS")):
        looked(waits, data, *DAYS, today="2024-03-09")


def test_a_date_has_no_effect_on_named_splits(by_split: Spec, data: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=place_and_value("--date", "(got 2024-03-07)")):
        check_request(by_split, "2024-03-07", data, tmp_path / "root")
    assert check_request(by_split, None, data, tmp_path / "root").date is None


def test_logs_on_an_object_store_are_looked_for_there(by_day: Spec, bucket: Bucket, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=place_and_value("--data", f"{bucket.uri}/logs")):
        check_request(by_day, DAYS[-1], f"{bucket.uri}/logs/", tmp_path / "root")
    for day in DAYS:
        bucket.put(f"logs/{day}/part.parquet", b"PAR1")
    request = check_request(by_day, DAYS[-1], f"{bucket.uri}/logs/", tmp_path / "root")
    assert request.data_root == f"{bucket.uri}/logs"
    check_logs(request, datetime.date(2024, 3, 9))
    with pytest.raises(UserError, match=place_and_value("data.pattern: ...", "2024-05-01")):
        check_logs(replace(request, date=datetime.date(2024, 5, 1)), datetime.date(2024, 5, 3))


def test_the_data_folder_must_be_there(by_day: Spec, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--data: no such folder"):
        check_request(by_day, "2024-03-07", tmp_path / "nowhere", tmp_path / "root")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="--data: is not a folder"):
        check_request(by_day, "2024-03-07", tmp_path / "file", tmp_path / "root")


def test_a_root_among_the_logs_is_refused(by_day: Spec, data: Path) -> None:
    (data.parent / "link").symlink_to(data)
    for root in (data, data / "root", data.parent / "link" / "root"):
        with pytest.raises(UserError, match=place_and_value("--root", "data folder")):
            check_request(by_day, "2024-03-07", data, root)
        assert not (data / "root").exists()


def test_a_root_that_cannot_be_made_is_refused(by_day: Spec, data: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="--root: cannot be created"):
        check_request(by_day, "2024-03-07", data, tmp_path / "file" / "root")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_root_that_may_not_be_written_to_is_refused(by_day: Spec, data: Path, tmp_path: Path) -> None:
    (tmp_path / "root").mkdir(mode=0o500)
    with pytest.raises(UserError, match=place_and_value("--root", f"(got {tmp_path / 'root'}")):
        check_request(by_day, "2024-03-07", data, tmp_path / "root")


def test_a_run_id_is_the_second_in_utc_and_the_digest(by_day: Spec) -> None:
    zone = datetime.timezone(datetime.timedelta(hours=5, minutes=30))
    now = datetime.datetime(2024, 3, 8, 2, 3, 4, tzinfo=zone)
    assert run_id(by_day, now) == f"20240307T203304-{digest(by_day)[:8]}"
