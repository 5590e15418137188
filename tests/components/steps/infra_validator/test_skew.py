"""The gates of skew refuse a model while servers see or score otherwise than training, and say what differs."""

from pathlib import Path
from typing import Any

import pytest

from sangam.components.reports.serving import ServingVerdict
from sangam.components.reports.skew import Example, ScoreSkew, TaskSkew
from sangam.schemas.spec.serving import Load
from tests.components.request_log.sample_requests import write
from tests.components.skew.sample_tables import CANDIDATES, DATA, DAYS, PLAN, REQUESTS, request, write_tables
from tests.errors import mentions
from tests.schemas.sample_specs import loaded

pytestmark = pytest.mark.slow

CHANGES: dict[str, Any] = {
    "data": DATA,
    "features": {
        "post": {"kind": "id", "type": "int", "table": "users"},
        "price": {"kind": "numeric", "normalize": "zscore", "missing": 0},
        "tags": {"kind": "ids", "type": "string", "table": "tags", "combiner": "mean"},
    },
    "event_time": "at",
    "evaluation": {},
}
GOOD = ServingVerdict(blessed=True, model_bytes=1, load=Load(), checks=[])


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_tables(tmp_path_factory.mktemp("skew"))
    for name, hours_behind in (("right", 0), ("behind", 1)):
        write(root / name, PLAN, [request(number, hours_behind) for number in range(REQUESTS)])
    return root


def judged(
    root: Path, *gates: dict[str, Any], date: str = DAYS[-1], changes: dict[str, Any] = CHANGES
) -> ServingVerdict:
    """Returns the verdict of a spec with gates, as they reach the step."""
    from sangam.components.steps.infra_validator.skew import Declared, declared, with_skew

    given = declared(loaded(root, changes | {"gates": [{"task": "like", "metric": "auc", "at_least": 0.6}, *gates]}))
    assert given
    again = Declared.model_validate_json(given.model_dump_json())
    return with_skew(GOOD, again, date, str(root), str(root / "absent"))


def test_equal_features_pass(root: Path) -> None:
    verdict = judged(root, {"skew": "features", "at_most": 0, "log": "right"})
    assert verdict.blessed
    [check] = verdict.checks
    assert check.passed
    assert mentions(check.reason, f"0.00% ... {REQUESTS * CANDIDATES}")
    assert verdict.feature_skew
    assert [column.column for column in verdict.feature_skew.columns] == ["price", "tags"]


def test_a_server_a_version_behind_refuses_the_model(root: Path) -> None:
    verdict = judged(root, {"skew": "features", "at_most": 0.001, "log": "behind"})
    assert not verdict.blessed
    [check] = verdict.checks
    assert mentions(
        check.reason, "'price' ... older version of a join ... request_id r0, candidate 0, post 0: 4.375 for 4.5"
    )
    assert "'tags'" in check.reason
    assert judged(root, {"skew": "features", "at_most": 0.99, "log": "behind"}).blessed


def test_a_ranker_that_learns_from_the_log_itself_is_compared_with_its_tables(root: Path) -> None:
    clicks = {
        "kind": "actions",
        "pattern": "clicks/{YYYY}-{MM}-{DD}/*.parquet",
        "format": "parquet",
        "keys": {"request_id": {"type": "string"}},
        "time": "at",
        "window_s": 60,
        "columns": {"like": {"take": "happened"}, "rating": {"take": "sum", "column": "stars"}},
    }
    data = {"kind": "served", "log": "behind", "train_days": 1, "sources": DATA["sources"] | {"clicks": clicks}}
    verdict = judged(root, {"skew": "features", "at_most": 0.001}, changes=CHANGES | {"data": data})
    assert not verdict.blessed
    assert mentions(verdict.checks[0].reason, "'price' ... older version of a join")


def test_what_could_not_be_compared_is_noted(root: Path) -> None:
    scores = {"skew": "scores", "at_most": 0, "log": "right"}
    verdict = judged(root, scores, {"skew": "features", "at_most": 0, "log": "absent"})
    assert (verdict.blessed, verdict.checks) == (True, [])
    left_out, without = verdict.notes
    assert mentions(left_out, f"{REQUESTS * CANDIDATES} candidates ... version 7 is not there")
    assert mentions(without, f"absent ... {DAYS[-1]}")


def test_a_task_beyond_its_bound_is_told_with_a_candidate() -> None:
    from sangam.components.steps.infra_validator.skew import score_check

    example = Example(keys={"request_id": "r1", "candidate": 2}, served=0.5, offline=0.25)
    task = TaskSkew(task="like", compared=100, different=1, largest=0.25, examples=[example])
    found = ScoreSkew(tasks=[task], left_out={})
    within, check = score_check(found, 0.01), score_check(found, 0.001)
    assert within
    assert check
    assert (within.passed, check.passed) == (True, False)
    assert score_check(ScoreSkew(tasks=[], left_out={"version 7 is not there": 3}), 0) is None
    assert mentions(check.reason, "'like' ... 1.00% of 100 ... 0.25 ... request_id r1, candidate 2: 0.5 for 0.25")


def test_the_step_gets_the_day_and_the_logs_only_with_a_gate(root: Path) -> None:
    from tfx import types
    from tfx.types import standard_artifacts as kinds

    from sangam.components.steps.infra_validator.component import InfraValidator

    gate = {"skew": "features", "at_most": 0, "log": "right"}
    quality = {"task": "like", "metric": "auc", "at_least": 0.6}
    with_gate, without = (
        InfraValidator(
            spec=loaded(root, CHANGES | {"gates": gates}),
            model=types.Channel(type=kinds.Model),
            training=types.Channel(type=kinds.ModelRun),
            pipeline_root="root",
            date=DAYS[-1],
            data_root="logs",
        ).exec_properties
        for gates in ([quality, gate], [quality])
    )
    assert (with_gate["date"], with_gate["data_root"]) == (DAYS[-1], "logs")
    assert with_gate.keys() - without.keys() == {"date", "data_root", "skew"}
