"""`sangam skew` finds nothing on its own path, names what differs, and refuses what it cannot compare."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from sangam.pipelines.cli import app
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.errors import UserError
from tests.components.request_log.sample_requests import write as write_log
from tests.components.skew.sample_tables import CANDIDATES, DATA, DAYS, PLAN, REQUESTS, request, write_tables
from tests.errors import mentions, place_and_value
from tests.schemas.sample_specs import changed, write

pytestmark = pytest.mark.slow

FEATURES: dict[str, Any] = {
    "post": {"kind": "id", "type": "int", "table": "users"},
    "price": {"kind": "numeric", "normalize": "zscore", "missing": 0},
    "tags": {"kind": "ids", "type": "string", "table": "tags", "combiner": "mean"},
}
LIKES = {
    "likes": {
        "kind": "actions",
        "pattern": "likes/{YYYY}-{MM}-{DD}/*.parquet",
        "format": "parquet",
        "keys": {"post": {"type": "int"}},
        "time": "at",
        "window_s": 60,
        "columns": {"like": {"take": "happened"}},
    }
}
WITHOUT_POSTS = {"features": {"price": FEATURES["price"], "tags": FEATURES["tags"]}, "tables": {"tags": {"dim": 4}}}
CHANGES = {"data": DATA, "features": FEATURES, "event_time": "at", "evaluation": {}}


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables, and the logs of a server that is right and of one that is a version behind."""
    root = write_tables(tmp_path_factory.mktemp("skew"))
    for name, hours_behind in (("right", 0), ("behind", 1)):
        write_log(root / name, PLAN, [request(number, hours_behind) for number in range(REQUESTS)])
    return root


def skew(logs: Path, log: str, *options: str, changes: dict[str, Any] | None = None) -> Result:
    spec = write(logs / "spec.yaml", changed(CHANGES | (changes or {})))
    arguments = ["skew", str(spec), "--data", str(logs), "--log", str(logs / log), "--date", DAYS[-1], *options]
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "250"})


def test_nothing_differs_where_the_server_reads_what_training_does(logs: Path) -> None:
    done = skew(logs, "right", "--at-most", "0")
    assert done.exit_code == ExitCode.DONE, done.output
    assert mentions(done.output, f"no column ... {REQUESTS * CANDIDATES} candidates")


def test_a_column_beyond_the_bound_is_told_with_its_cause_and_an_example(logs: Path) -> None:
    done = skew(logs, "behind")
    assert done.exit_code == ExitCode.REJECTED, done.output
    assert mentions(done.output, "price ... older version of a join: 1 before")
    assert mentions(done.output, "0.10% ... price, tags ... request_id r0, candidate 0, post 0")
    assert skew(logs, "behind", "--at-most", "1").exit_code == ExitCode.DONE


def test_a_program_reads_all_that_was_found(logs: Path) -> None:
    found = json.loads(skew(logs, "behind", "--sample", "2", "--json").stdout)
    features = found["features"]
    assert (features["rows"], found["at_most"], found["beyond"]) == (2 * CANDIDATES, 0.001, ["price", "tags"])
    assert features["columns"][0]["cause"]["kind"] == "older version of a join"
    assert (found["scores"], found["beyond_scores"]) == (None, [])


@pytest.mark.parametrize(
    ("log", "changes", "place", "value"),
    [
        ("absent", {}, "--log", "absent"),
        ("right", {"data": DATA | {"sources": LIKES}}, "data.sources", "got likes"),
        ("right", WITHOUT_POSTS, "data.sources", "got post"),
        ("right", {"serving": {"log": {"share": 1, "redact": {"post": "drop"}}}}, "data.sources", "got post"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    logs: Path, log: str, changes: dict[str, Any], place: str, value: str
) -> None:
    done = skew(logs, log, changes=changes)
    assert isinstance(done.exception, UserError), done.output
    with pytest.raises(UserError, match=place_and_value(place, value)):
        raise done.exception
