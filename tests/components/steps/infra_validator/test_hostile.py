"""Hostile requests against a served ranker with every kind of feature: finite scores or a clean error."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sangam.schemas.spec import RankerSpec

pytestmark = [pytest.mark.slow, pytest.mark.long]
tf = pytest.importorskip("tensorflow")


@pytest.fixture(scope="module")
def described() -> Any:
    """Returns what a server says of itself, its signatures, and a few rows."""
    from sangam.components.steps.infra_validator import rows as rows_module
    from sangam.trainer_module.ranker import Ranker
    from sangam.trainer_module.serving.description import description
    from sangam.trainer_module.serving.signatures import ServedRanker
    from sangam.trainer_module.serving.stock_table import StockTable
    from sangam.trainer_module.serving.trained_rows import TrainedRows
    from sangam.trainer_module.transforms.graph import TransformGraph
    from tests.trainer_module.transforms.analysis import analyzed
    from tests.trainer_module.transforms.test_feature_kinds import INPUTS, ROWS

    document = json.loads(INPUTS.model_dump_json()) | {
        "name": "all_kinds",
        "tables": {table: {"dim": 4} for table in INPUTS.table_tags()},
        "model": {"kind": "shared_bottom", "bottom_units": [4], "tower_units": [4]},
        "training": {
            "batch_size_per_rank": 2,
            "dense_optimizer": {"kind": "sgd", "learning_rate": 0.1},
            "embedding_optimizer": {"kind": "sgd", "learning_rate": 0.1},
        },
    }
    model = Ranker(RankerSpec.model_validate_json(json.dumps(document)))
    none = TrainedRows(np.zeros(0, np.int64), lambda: iter(()))
    tables = {name: StockTable(group, "float32", none) for name, group in model.groups.items()}
    graph = TransformGraph(str(Path(analyzed(INPUTS, ROWS)[1].transform_savedmodel_dir).parent))
    served = ServedRanker(model, graph, model.weights.initial(seed=1), tables)
    signatures = served.signatures()
    said = description(model.spec, "digest", served, signatures, {})
    found = rows_module.Description(
        ranker=model.spec,
        columns=said.columns,
        signatures=frozenset(signatures),
    )
    rows = {
        name: [[each.encode() if isinstance(each, str) else each for each in row.get(name, [])] for row in ROWS]
        for name in found.columns
    }
    return found, signatures, rows


def asked(signatures: Any, signature: str, tensors: Any) -> dict[str, Any] | None:
    """Returns the scores, None for an error that tells the client that the request is at fault."""
    try:
        inputs = {name: tf.constant(values) for name, values in tensors.items()}
        if signature == "serving_default":
            outputs = signatures[signature](inputs["examples"])
        else:
            outputs = signatures[signature](inputs)
    except (tf.errors.InvalidArgumentError, TypeError, ValueError):
        return None
    return {task: scores.numpy() for task, scores in outputs.items()}


def test_every_request_ends_in_finite_scores_or_a_clean_error(described: Any) -> None:
    from sangam.components.steps.infra_validator.hostile import hostile_requests

    found, signatures, rows = described
    requests = list(hostile_requests(rows, found))
    kinds = {request.kind for request in requests}
    assert kinds >= {"wrong length", "weights of 0", "extreme times", "NaN", "unknown ids", "empty list"}
    for request in requests:
        if request.kind == "10 MB":
            continue
        scores = asked(signatures, request.signature, request.tensors)
        assert scores is not None or not request.must_score, request.kind
        for task, values in (scores or {}).items():
            assert np.isfinite(values).all(), (request.kind, request.signature, task)
    wrong = [request for request in requests if request.kind == "wrong length"]
    assert wrong
    assert all(asked(signatures, request.signature, request.tensors) is None for request in wrong)


def test_both_signatures_agree_on_every_row_and_read_missing_values_as_ingestion_does(described: Any) -> None:
    from sangam.components.steps.infra_validator import rows as module
    from sangam.schemas.derived.rank_inputs import MISSING

    found, signatures, rows = described
    marked, without = dict(rows), dict(rows)
    for name, column in found.columns.items():
        spec = found.spec_columns[name]
        marker = math.inf if column.type == "float" else MISSING[column.type]
        if column.is_list and spec.length is None:
            in_front = 9.0 if spec.beside else marker
            marked[name] = [[in_front, *values] for values in rows[name]]
        elif not column.is_list:
            marked[name] = [[marker], *rows[name][1:]]
            without[name] = [[], *rows[name][1:]]
    assert marked != without
    answers = [asked(signatures, "rank", module.rank_inputs(each, found.columns)) for each in (rows, without, marked)]
    for each in (rows, without, marked):
        examples = module.example_inputs(module.to_examples(each, found.columns))
        answers.append(asked(signatures, "serving_default", examples))
    for first, second in ((0, 3), (1, 2), (1, 4), (1, 5)):
        one, two = answers[first], answers[second]
        assert one is not None
        assert two is not None
        for task, scores in one.items():
            np.testing.assert_allclose(two[task], scores, rtol=1e-5, err_msg=f"{first} {second} {task}")


def test_a_request_is_made_of_what_predictions_need(described: Any) -> None:
    from sangam.schemas.spec.release import Evaluation

    found, _, _ = described
    # Of a bias feature the spec says the value; labels and weights are known after the event.
    assert not {"position", "place", "buy", "click", "worth", "watch"} & set(found.columns)
    assert found.id_columns == ["item", "seen", "tags", "user"]
    assert found.time_columns == ["posted", "signed_up", "time"]
    assert found.once(Evaluation()) == ["seen"]


def test_what_is_no_number_counts_as_missing(described: Any) -> None:
    from sangam.components.steps.infra_validator.hostile import hostile_requests

    found, signatures, rows = described
    nan = [request for request in hostile_requests(rows, found) if request.kind == "NaN"]
    assert len(nan) == 2
    assert all(asked(signatures, request.signature, request.tensors) is not None for request in nan)
