"""Logged requests get the scores again that their version gave; others are found, with the candidate."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sangam.components.request_log.served import Plan, Served
from sangam.components.server.model import LoadedModel
from sangam.components.skew.rescoring import check_scores
from sangam.schemas.contracts.deltas import LINEAGE_FILE, Lineage
from sangam.schemas.derived.days import parse_day
from sangam.schemas.spec.serving import RequestLog
from tests.components.request_log.sample_requests import write
from tests.components.server.logged_models import put_logged
from tests.components.server.sample_models import SmallRanker, candidates

pytestmark = pytest.mark.slow

VERSION, REDACTED, ABSENT, FULL = 20240228001, 20240228002, 20240228003, 20240228004
DAY, AT_S = parse_day("2024-02-29"), 1_709_200_000.5


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    SmallRanker(3.0).save(folder / "model")
    put_logged(folder / "model", folder / "versions", VERSION, RequestLog(share=1.0))
    put_logged(folder / "model", folder / "versions", REDACTED, RequestLog(share=1.0, redact={"user": "hash"}))
    put_logged(folder / "model", folder / "versions", FULL, RequestLog(share=1.0))
    place = Lineage(lineage=str(VERSION), number=7, sha256="")
    (folder / "versions" / str(FULL) / LINEAGE_FILE).write_text(place.model_dump_json())
    return folder / "versions"


@pytest.fixture(scope="module")
def model(versions: Path) -> LoadedModel:
    return LoadedModel(versions / str(VERSION), VERSION)


def _served(model: LoadedModel, number: int, *, delta: int | None = None, wrong: float = 0.0) -> Served:
    """Returns a request with what the model answers, the last score of `like` changed."""
    inputs = candidates(3) | {
        "price": np.array([0.5, np.nan, number], np.float32),
        "topics": np.array([[1, 2], [3, 0], [0, 0]]),
        "topics_length": np.array([2, 1, 0]),
    }
    scores = model.run(model.signature("rank"), inputs)
    scores["like"][-1] += wrong
    assert model.logged
    return Served(model.logged, f"r{number}", AT_S + number, delta, inputs, 3, scores)


@pytest.mark.parametrize("version", [VERSION, FULL])
def test_what_was_scored_without_a_later_delta_is_scored_again(
    model: LoadedModel, versions: Path, tmp_path: Path, version: int
) -> None:
    assert model.logged
    plan = replace(model.logged, version=version)
    requests = [_served(model, delta, delta=delta) for delta in (0, 6, 7, 8)]
    write(tmp_path, plan, [replace(each, plan=plan) for each in requests])
    found = check_scores(str(tmp_path), versions, DAY, 100)
    assert found
    assert [(task.compared, task.different) for task in found.tasks] == [(2, 0), (2, 0)]
    assert list(found.left_out.values()) == [9]


def test_a_version_gives_the_logged_scores_again(model: LoadedModel, versions: Path, tmp_path: Path) -> None:
    assert model.logged
    write(tmp_path, model.logged, [_served(model, number) for number in range(4)])
    found = check_scores(str(tmp_path), versions, DAY, 100)
    assert found
    # A score of a missing price is none.
    assert [(task.task, task.compared, task.different, task.largest) for task in found.tasks] == [
        ("like", 8, 0, 0.0),
        ("watch", 8, 0, 0.0),
    ]
    assert found.left_out == {}


def test_a_score_that_the_version_does_not_give_is_found(model: LoadedModel, versions: Path, tmp_path: Path) -> None:
    assert model.logged
    requests = [_served(model, 1, wrong=0.25), _served(model, 2), _served(model, 3, delta=7, wrong=1.0)]
    write(tmp_path, model.logged, requests)
    found = check_scores(str(tmp_path), versions, DAY, 100)
    assert found
    like, watch = found.tasks
    assert (like.compared, like.different, like.largest, watch.different) == (4, 1, 0.25, 0)
    [example] = like.examples
    assert example.keys == {"request_id": "r1", "candidate": 2, "served_version": VERSION}
    assert example.served == example.offline + 0.25  # type: ignore[operator]
    assert list(found.left_out.values()) == [3]


def test_versions_that_cannot_score_again_are_told(model: LoadedModel, versions: Path, tmp_path: Path) -> None:
    assert model.logged
    for number, version in enumerate((REDACTED, ABSENT)):
        of = model.logged
        plan = Plan(of.model, version, of.settings, of.columns, of.tasks, of.event_time)
        served = _served(model, number)
        write(tmp_path, plan, [Served(plan, served.request_id, served.at_s, None, served.inputs, 3, served.scores)])
    found = check_scores(str(tmp_path), versions, DAY, 100)
    assert found
    assert not found.tasks
    assert found.left_out == {f"version {REDACTED} redacts user": 3, f"version {ABSENT} is not there": 3}
    assert check_scores(str(tmp_path), versions, parse_day("2024-03-01"), 100) is None
