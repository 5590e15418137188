"""Examples of a log of requests are those of a log of candidates with the same rows: by days, and as they arrive."""

import json
from pathlib import Path
from typing import Any

import pytest

from sangam.components.request_log.served import Served
from sangam.schemas.spec.data import DayLogs, ServedLogs
from tests.components.examples.sample_files import read_examples
from tests.components.logs.readers.sample_prediction_logs import ranked
from tests.components.logs.sample_logs import run_executor, write_days, write_records
from tests.components.logs.sample_sources import DAYS
from tests.components.request_log.sample_requests import (
    CANDIDATES,
    DECLARED,
    EVENT_TIME,
    INPUTS,
    PLAN,
    REQUESTS_A_DAY,
    SERVED,
    made,
    write,
)
from tests.components.stream.sample_stream import arrive, as_texts, examples_of, files_below, job_of

pytestmark = pytest.mark.slow

PREDICTION_LOG = ServedLogs.model_validate(
    {"kind": "served", "format": "prediction_log", "log": "prediction_logs/{YYYY}-{MM}-{DD}/*", **DECLARED}
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of requests, TensorFlow Serving's of the same, one of candidates with the same rows, and clicks."""
    root = tmp_path_factory.mktemp("served") / "logs"
    days = {day: made(day) for day in DAYS}
    write(root / "requests", PLAN, [served for requests, _, _ in days.values() for served in requests])
    for day, (requests, _, _) in days.items():
        write_records(root / "prediction_logs" / day / "0.gz", [prediction_log(each) for each in requests])
    write_days(root / "candidates", "parquet", {day: rows for day, (_, rows, _) in days.items()})
    write_days(root / "clicks", "parquet", {day: clicks for day, (_, _, clicks) in days.items()})
    return root


def prediction_log(served: Served) -> bytes:
    """Returns TensorFlow Serving's record of a request, whose collector adds what no model reads."""
    told: dict[str, Any] = {} if served.position is None else {"served_position": served.position}
    if served.shadow_version is not None:
        told["shadow_version"] = [served.shadow_version]
    return ranked({**served.inputs, **told, "request_id": [served.request_id.encode()], EVENT_TIME: [int(served.at_s)]})


def ingested(root: Path, logs: ServedLogs | DayLogs, out: Path) -> tuple[list[str], dict[str, Any]]:
    properties = {
        "logs": logs.model_dump_json(),
        "inputs": INPUTS.model_dump_json(),
        "date": DAYS[-1],
        "data_root": str(root),
        "name": "tiny",
        "mode": "full",
        "pipeline_root": str(out / "root"),
        "code": "",
    }
    uri = run_executor(properties, out / "examples").uri
    counts = json.loads(Path(uri, "ingestion.json").read_text())["splits"]
    return as_texts([row for split in ("train", "eval") for row in read_examples(uri, split)]), counts


def test_examples_of_served_requests_equal_those_of_an_offline_join_and_of_the_stream(
    root: Path, tmp_path: Path
) -> None:
    expected, counts = ingested(root, CANDIDATES, tmp_path / "offline")
    assert len(expected) == sum(1 + number % 4 for number in range(REQUESTS_A_DAY)) * len(DAYS)
    assert sum("'like', [1]" in text for text in expected) == 3 * (2 + 4 + 2 + 4)
    found, of_served = ingested(root, SERVED, tmp_path / "served")
    assert found == expected
    assert {split: each["joined"] for split, each in of_served.items()} == {
        split: each["joined"] for split, each in counts.items()
    }
    found, of_records = ingested(root, PREDICTION_LOG, tmp_path / "prediction_log")
    assert found == expected
    assert of_records["train"]["joined"] == counts["train"]["joined"]
    job = job_of(tmp_path, SERVED.parts, INPUTS, lateness_s=3 * 86_400, idle_s=1e-9)
    arrive(root, job, [name for name in files_below(root) if name.startswith(("requests/20", "clicks/"))])
    from sangam.components.stream.joiner import Joiner

    joiner = Joiner(job)
    while joiner.step(is_last=True):
        pass
    assert as_texts(examples_of(job)) == expected
