"""What the serving check sends, and how it reads the answers: without a server."""

import math
from typing import Any

import numpy as np
import pytest

from sangam.components.steps.infra_validator.bounds import Latency, latency_check, notes_on_bounds, size_check
from sangam.schemas.spec.release import Evaluation
from sangam.schemas.spec.serving import Load, Serving
from tests.errors import mentions
from tests.paths import SPECS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rows() -> Any:
    from sangam.components.steps.infra_validator import rows as module

    return module


@pytest.fixture(scope="module")
def columns(rows: Any) -> Any:
    from tests.components.steps.infra_validator.sample_models import COLUMNS

    return {name: rows.ServedColumn.model_validate(column) for name, column in COLUMNS.items()}


ROWS: dict[str, list[list[Any]]] = {
    "user_id": [[b"u1"], []],
    "post_id": [[7], [8]],
    "tags": [[b"a", b"b"], []],
    "list price": [[0.5], []],
}


def test_rows_become_examples_and_back(rows: Any, columns: Any) -> None:
    assert rows.read_rows(rows.to_examples(ROWS, columns), columns) == ROWS


def test_rows_become_columns_padded_and_with_words_for_what_is_missing(rows: Any, columns: Any) -> None:
    tensors = rows.rank_inputs(ROWS, columns)
    assert sorted(tensors) == ["list_price", "post_id", "tags", "tags_length", "user_id"]
    assert tensors["user_id"].tolist() == [b"u1", b""]
    assert tensors["tags"].tolist() == [[b"a", b"b"], [b"", b""]]
    assert tensors["tags_length"].tolist() == [2, 0]
    assert tensors["list_price"].dtype == np.float32
    assert math.isnan(tensors["list_price"][1])
    assert tensors["post_id"].dtype == tensors["tags_length"].dtype == np.int64


def test_the_same_request_is_said_once_and_repeated(rows: Any) -> None:
    broadcast, repeated = rows.with_once(ROWS, ["user_id"])
    assert (broadcast["user_id"], repeated["user_id"]) == ([[b"u1"]], [[b"u1"], [b"u1"]])
    assert broadcast["post_id"] == repeated["post_id"] == [[7], [8]]


def test_a_request_gives_once_what_users_are_grouped_by_and_their_history(rows: Any) -> None:

    from sangam.schemas.loading import load_spec

    spec = load_spec(SPECS / "short_video.yaml")
    described = rows.Description(ranker=spec.ranker(), columns={}, signatures=frozenset())
    assert described.once(Evaluation()) == ["recent_posts"]
    by_user = Evaluation.model_validate_json('{"confidence": {"by": "user"}, "group": {"by": "session"}}')
    assert described.once(by_user) == ["recent_posts", "user_id"]
    assert "duration_s" not in described.id_columns
    assert "recent_posts" in described.id_columns


def test_every_kind_of_hostile_request_is_sent_to_both_signatures(rows: Any, columns: Any) -> None:
    from sangam.components.steps.infra_validator.hostile import LARGE_BYTES, hostile_requests
    from tests.components.steps.infra_validator.sample_models import RANKER

    described = rows.Description(ranker=RANKER, columns=columns, signatures=frozenset())
    requests = list(hostile_requests({name: values[:1] for name, values in ROWS.items()}, described))
    kinds = ["unknown ids", "missing features", "empty list", "wrong type", "10 MB", "NaN"]
    assert list(dict.fromkeys(request.kind for request in requests)) == kinds
    for kind in kinds:
        assert {request.signature for request in requests if request.kind == kind} == {"serving_default", "rank"}
    [large] = [request for request in requests if request.kind == "10 MB" and request.signature == "rank"]
    assert len(large.tensors["user_id"][0]) == LARGE_BYTES
    [unknown] = [request for request in requests if request.kind == "unknown ids" and request.signature == "rank"]
    assert unknown.must_score
    assert unknown.tensors["user_id"].tolist() == [b"sangam-never-seen-0"]


@pytest.mark.parametrize(
    ("served", "gap"),
    [
        ([1.0, 2.0], 0.0),
        ([1.0, 2.3], 0.1),
        ([1.0, math.nan], math.inf),
        ([1.0, math.inf], math.inf),
    ],
)
def test_scores_differ_relative_to_one_and_the_score(served: list[float], gap: float) -> None:
    from sangam.components.steps.infra_validator.scores import difference

    expected = {"watch": np.array([[1.0], [2.0]])}
    task, found = difference({"watch": np.array(served)[:, None]}, expected)
    assert task == "watch"
    assert found == pytest.approx(gap)


def test_what_is_not_finite_on_both_sides_is_no_difference() -> None:
    from sangam.components.steps.infra_validator.scores import difference, not_finite

    broken = {"watch": np.array([[math.nan], [2.0]], np.float32)}
    assert difference(broken, broken) == ("watch", 0.0)
    assert not_finite(broken) == {"watch": 1}


def test_outputs_are_the_tasks_one_column_each_in_float32() -> None:
    from sangam.components.steps.infra_validator.scores import wrong_outputs

    served = {
        "like": np.zeros((3, 1), np.float32),
        "watch": np.zeros(3, np.float32),
        "share": np.zeros((3, 1)),
        "more": np.zeros((3, 1), np.float32),
    }
    missing, more, shape, dtype = wrong_outputs(served, dict.fromkeys(("like", "watch", "share", "save")), 3)
    assert mentions(missing, "no ... save")
    assert mentions(more, "more ... no task")
    assert mentions(shape, "watch ... [3] ... [3, 1]")
    assert mentions(dtype, "share ... float64 ... float32")


def test_sizes_that_look_alike_are_shown_in_bytes() -> None:
    checked = size_check(1_000_001, Serving(max_model_size="1MB"))
    assert checked
    assert not checked.passed
    assert mentions(checked.reason, "1,000,001 bytes ... above serving.max_model_size 1,000,000 bytes")
    assert size_check(1_000_000, Serving(max_model_size="1MB")).passed  # type: ignore[union-attr]


def test_the_least_of_the_measurements_counts_and_without_a_bound_none_is_judged() -> None:
    measured = [Latency(p50_ms=1, p99_ms=60, requests=90), Latency(p50_ms=2, p99_ms=40, requests=99)]
    bound = Serving(max_p99_ms=50, load=Load(candidates=7, clients=2))
    checked = latency_check(measured, bound)
    assert checked
    assert checked.passed
    assert mentions(checked.reason, "p99 40 ms of 99 ... 2 measurements ... serving.max_p99_ms 50 (7 ... clients: 2)")
    assert latency_check(measured, Serving()) is None
    assert size_check(1, Serving()) is None
    assert len(notes_on_bounds(Serving())) == 2
    assert notes_on_bounds(Serving(max_model_size="1MB", max_p99_ms=1)) == []


def test_percentiles_are_of_times_that_were_measured() -> None:
    from sangam.components.steps.infra_validator.load import latency_of

    assert latency_of([index / 1000 for index in range(1, 201)]) == Latency(p50_ms=101, p99_ms=199, requests=200)
    assert latency_of([0.002, 0.001]) == Latency(p50_ms=2, p99_ms=2, requests=2)
