"""What an exported model answers, in both forms."""

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sangam.schemas.contracts.export import feature_of_known_ids
from sangam.schemas.contracts.training_job import TrainJob

pytestmark = pytest.mark.slow
tf = pytest.importorskip("tensorflow")

Exported = Callable[[str, str], TrainJob]
MODELS = [("stock", "float32"), pytest.param("tfra", "int8", marks=pytest.mark.long)]
"""A pair of each; that both forms are alike is proven for either size of rows."""
ONE_USER = ("User_ID", "history", "history_length", "age")


@pytest.fixture(scope="module")
def loaded(exported: Exported) -> Callable[[str, str], Any]:
    """Returns a loaded model; those who change rows load their own."""
    models: dict[tuple[str, str], Any] = {}

    def of(form: str, rows: str) -> Any:
        if (form, rows) not in models:
            models[form, rows] = tf.saved_model.load(exported(form, rows).model_dir)
        return models[form, rows]

    return of


def _numbers(answer: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {name: value.numpy() for name, value in answer.items()}


def _assert_alike(one: Mapping[str, Any], other: Mapping[str, Any], *, within: float) -> None:
    one, other = _numbers(one), _numbers(other)
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].shape == other[name].shape
        np.testing.assert_allclose(one[name], other[name], rtol=0, atol=within, err_msg=name)


def _examples(rows: list[Any]) -> Any:
    from tests.trainer_module.serving.sample_training import encoded

    return tf.constant([encoded(row) for row in rows], tf.string)


def _blocks(*blocks: list[Any]) -> Any:
    from sangam.schemas.derived.columns import serving_columns
    from tests.trainer_module.sample_blocks import plain_block
    from tests.trainer_module.serving.sample_training import declared, encoded

    read = [column.name for column in serving_columns(declared())]
    return tf.constant([plain_block([encoded(row) for row in rows], read) for rows in blocks], tf.string)


def _by_task(answer: Mapping[str, Any]) -> dict[str, Any]:
    return {name: values for name, values in answer.items() if feature_of_known_ids(name) is None}


def _known_ids(answer: Mapping[str, Any]) -> dict[str, list[bool]]:
    found = {feature_of_known_ids(name): flags for name, flags in answer.items()}
    return {feature: flags.numpy().tolist() for feature, flags in found.items() if feature is not None}


def _of_one_user(inputs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the inputs with one user's columns given once, and the same with them repeated."""
    count = len(inputs["post_id"])
    once = {name: value[:1] if name in ONE_USER else value for name, value in inputs.items()}
    repeated = {name: tf.repeat(value, count, axis=0) if name in ONE_USER else value for name, value in once.items()}
    return once, repeated


@pytest.mark.parametrize(("form", "stored"), MODELS)
def test_columns_score_as_examples_do_for_every_kind_of_feature(loaded: Any, form: str, stored: str) -> None:
    from tests.trainer_module.serving.sample_training import ranked, rows

    some = rows(200, seed=7)
    signatures = loaded(form, stored).signatures
    by_examples = signatures["serving_default"](examples=_examples(some))
    _assert_alike(by_examples, signatures["rank"](**ranked(some)), within=1e-6)
    by_blocks = signatures["score_blocks"](blocks=_blocks(some[:130], some[130:]))
    _assert_alike(by_examples, _by_task(by_blocks), within=1e-6)
    assert {name: tuple(scores.shape) for name, scores in by_examples.items()} == {"like": (200, 1), "watch": (200, 1)}
    assert np.std(by_examples["like"]) > 0.01


@pytest.mark.parametrize(("form", "stored"), MODELS)
def test_requests_that_a_server_joins_score_as_they_do_alone(
    loaded: Any, exported: Any, form: str, stored: str
) -> None:
    from sangam.components.server.joining import Joined
    from sangam.components.server.model import LoadedModel
    from tests.trainer_module.serving.sample_training import ranked, rows

    model = LoadedModel(Path(exported(form, stored).model_dir), 1)
    rank = model.signature("rank")
    some = rows(12, seed=7)
    parts = [
        {name: value.numpy() for name, value in _of_one_user(ranked(some[start:end]))[0].items()}
        for start, end in ((0, 7), (7, 8), (8, 12))
    ]
    joined = Joined(rank, parts[0], 7, 2**24)
    assert all(joined.add(part, rank.num_rows(part)) for part in parts[1:])
    divided = joined.divided(model.run(rank, joined.arrays()))
    assert divided is not None
    for part, found in zip(parts, divided, strict=True):
        alone = loaded(form, stored).signatures["rank"](**{name: tf.constant(value) for name, value in part.items()})
        for task, expected in _numbers(alone).items():
            np.testing.assert_allclose(found[task], expected, rtol=0, atol=1e-6, err_msg=task)


@pytest.mark.parametrize(("form", "stored"), MODELS)
def test_an_example_with_nothing_in_its_lists_scores_by_columns_too(loaded: Any, form: str, stored: str) -> None:
    from tests.trainer_module.serving.sample_training import ranked, rows

    bare = {"User ID": [], "friend": [], "history": [], "tags": [], "age": [], "spent": []}
    some = [rows(1)[0] | bare]
    signatures = loaded(form, stored).signatures
    assert ranked(some)["history"].shape == (1, 0)
    by_examples = signatures["serving_default"](examples=_examples(some))
    _assert_alike(by_examples, signatures["rank"](**ranked(some)), within=1e-6)
    _assert_alike(by_examples, _by_task(signatures["score_blocks"](blocks=_blocks(some))), within=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("stored", ["float32", "int8"])
def test_both_forms_answer_exactly_the_same(loaded: Any, stored: str) -> None:
    from tests.trainer_module.serving.sample_training import ranked, rows

    some = rows(200, seed=8)
    stock, tfra = (loaded(form, stored).signatures for form in ("stock", "tfra"))
    assert set(stock) == set(tfra)
    for name, inputs in (
        ("serving_default", {"examples": _examples(some)}),
        ("score_blocks", {"blocks": _blocks(some)}),
        ("rank", ranked(some)),
        ("table_size", {}),
    ):
        _assert_alike(stock[name](**inputs), tfra[name](**inputs), within=0.0)


@pytest.mark.parametrize(("form", "stored"), MODELS)
def test_one_user_with_many_candidates_scores_as_the_user_repeated(loaded: Any, form: str, stored: str) -> None:
    from tests.trainer_module.serving.sample_training import ranked, rows

    rank = loaded(form, stored).signatures["rank"]
    for count in (1, 2, 50):
        once, repeated = _of_one_user(ranked(rows(count, seed=count)))
        _assert_alike(rank(**once), rank(**repeated), within=1e-6)
    context, candidates = ranked(rows(1, seed=3)), ranked(rows(30, seed=4))
    only_posts = context | {"post_id": candidates["post_id"]}
    answers = _numbers(rank(**only_posts))
    for number in (0, 29):
        alone = _numbers(rank(**context | {"post_id": candidates["post_id"][number : number + 1]}))
        np.testing.assert_allclose(answers["like"][number], alone["like"][0], atol=1e-6)


@pytest.mark.parametrize(("form", "stored"), MODELS[:2])
def test_requests_that_a_server_joins_score_as_each_alone(exported: Exported, form: str, stored: str) -> None:
    from sangam.components.server.joining import Joined
    from sangam.components.server.model import LoadedModel
    from tests.trainer_module.serving.sample_training import ranked, rows

    model = LoadedModel(Path(exported(form, stored).model_dir), 1)
    rank, parts = model.signature("rank"), []
    for seed, candidates in ((3, 4), (5, 1), (7, 6)):
        inputs = _numbers(ranked(rows(candidates, seed=seed)))
        parts.append({name: values[:1] if name in ONE_USER else values for name, values in inputs.items()})
    joined = Joined(rank, parts[0], 4, 2**20)
    assert joined.add(parts[1], 1)
    assert joined.add(parts[2], 6)
    arrays = joined.arrays()
    assert {name: len(values) for name, values in arrays.items()} == {
        name: 3 if name in ONE_USER else 11 for name in (*parts[0], "request_number")
    }
    divided = joined.divided(model.run(rank, arrays))
    assert divided is not None
    for part, outputs in zip(parts, divided, strict=True):
        for task, alone in model.run(rank, part).items():
            np.testing.assert_allclose(outputs[task], alone, rtol=0, atol=1e-6)


def test_what_candidates_share_is_looked_up_once(served_world: Any) -> None:
    from sangam.trainer_module.dense.split import Requests
    from sangam.trainer_module.serving.candidates import candidate_logits, in_request
    from sangam.trainer_module.serving.request_columns import columns_of
    from sangam.trainer_module.serving.writing import served_ranker
    from tests.trainer_module.serving.sample_training import declared, job_of, ranked, rows

    served = served_ranker(job_of(served_world, served_world, declared()), declared().export)
    asked: list[int] = []

    class Counted:
        def __init__(self, table: Any):
            self._table = table

        def __call__(self, keys: Any) -> Any:
            asked.append(int(tf.size(keys)))
            return self._table(keys)

    tables: Any = {name: Counted(table) for name, table in served.tables.items()}
    row = rows(1, seed=3)[0] | {"history": [1001, 1002, 1003], "tags": ["t1", "t2"]}
    inputs = ranked([row]) | {"post_id": tf.range(1000, 1200, dtype=tf.int64)}
    requests = Requests.of(tf.zeros(200, tf.int32))
    logged = columns_of(served.columns, inputs)
    columns = in_request(served._transform.features_of(declared(), logged))
    logits = candidate_logits(served._ranker, served._weights(), columns, tables, requests)
    assert logits.shape == (200, 2)
    # Of the user, the friend, the history and the two most recent of it, and the tags one row each; 200 posts.
    assert sorted(asked) == sorted([2, 1 + 1 + 3 + 2 + 200])


def test_a_match_of_several_requests_repeats_no_list(served_world: Any) -> None:
    from sangam.schemas.spec import RankerSpec
    from sangam.trainer_module.serving.request_columns import columns_of
    from sangam.trainer_module.serving.writing import served_ranker
    from sangam.trainer_module.transforms.columns import OfSeveral
    from tests.trainer_module.serving.sample_training import declared, job_of, ranked, rows

    served = served_ranker(job_of(served_world, served_world, declared()), declared().export)
    seen = {"kind": "match", "column": "post-id", "among": "history", "type": "int"}
    document = declared().model_dump(mode="json", exclude_unset=True)
    spec = RankerSpec.model_validate_json(json.dumps(document | {"features": document["features"] | {"seen": seen}}))
    row = rows(1, seed=3)[0]
    inputs = ranked([row | {"history": history} for history in ([1001, 1002, 1002], [], [1003])])

    def made(posts: list[int]) -> Any:
        asked = inputs | {"post_id": tf.constant(posts, tf.int64)}
        several = OfSeveral({}, tf.constant([0, 0, 0, 1, 2, 2]))
        return served._transform.features_of(spec, columns_of(served.columns, asked), several)

    of_candidates = made([1002, 1003, 1001, 1001, 1003, 1001])
    assert of_candidates["seen"].numpy().tolist() == [1, 0, 1, 0, 1, 0]
    assert of_candidates["history"].ragged().row_lengths().numpy().tolist() == [3, 0, 1]
    assert made([1002, 1002, 1001])["seen"].numpy().tolist() == [1, 0, 0]


@pytest.mark.parametrize(("form", "stored"), MODELS)
def test_no_candidates_get_an_empty_answer(loaded: Any, form: str, stored: str) -> None:
    from tests.trainer_module.serving.sample_training import ranked, rows

    signatures = loaded(form, stored).signatures
    inputs = ranked(rows(3))
    none = {name: value[: 1 if name in ONE_USER else 0] for name, value in inputs.items()}
    nothing = {name: value[:0] for name, value in inputs.items()}
    for asked in (none, nothing):
        assert {task: tuple(scores.shape) for task, scores in signatures["rank"](**asked).items()} == {
            "like": (0, 1),
            "watch": (0, 1),
        }
    assert signatures["serving_default"](examples=tf.constant([], tf.string))["like"].shape == (0, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"post_id": 3, "hour": 2}, "rows of User_ID, age, .*3"),
        ({"post_id": 3, "hour": 0}, "one for each candidate"),
        ({"history": 2, "history_length": 1}, "history and history_length"),
        ({"tags_length": [9]}, "tags_length .*width of tags"),
        ({"tags_length": [-1]}, "tags_length .*width of tags"),
    ],
)
def test_inputs_that_do_not_fit_are_refused_by_name(loaded: Any, changes: dict[str, Any], message: str) -> None:
    from tests.trainer_module.serving.sample_training import ranked, rows

    some = ranked(rows(3, seed=5))
    inputs = {name: value[:1] for name, value in some.items()}
    for name, change in changes.items():
        inputs[name] = some[name][:change] if isinstance(change, int) else tf.constant(change, tf.int64)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        loaded("stock", "float32").signatures["rank"](**inputs)


@pytest.mark.parametrize(("form", "stored"), MODELS)
def test_known_ids_are_those_with_a_row(loaded: Any, form: str, stored: str) -> None:
    from tests.trainer_module.serving.sample_training import POSTS, rows

    row = rows(1)[0]
    some = [
        row | {"User ID": ["u1"], "friend": ["nobody"], "post-id": [POSTS[0]]},
        row | {"User ID": ["stranger"], "friend": ["u2"], "post-id": [4]},
        row | {"User ID": [], "friend": [], "post-id": [POSTS[1]]},
    ]
    answer = loaded(form, stored).signatures["score_blocks"](blocks=_blocks(some))
    # A missing user is read as u3; a missing friend is nobody.
    assert _known_ids(answer) == {
        "user": [True, False, True],
        "friend": [False, True, False],
        "post": [True, False, True],
    }


@pytest.mark.long
@pytest.mark.parametrize(("form", "stored"), MODELS)
def test_rows_can_be_changed_in_one_loaded_model_alone(exported: Exported, form: str, stored: str) -> None:
    from sangam.trainer_module.transforms.keys import id_keys
    from tests.trainer_module.serving.sample_training import declared, embeddings, encoded, rows

    path = exported(form, stored).model_dir
    changed, other = tf.saved_model.load(path), tf.saved_model.load(path)
    row = rows(1)[0] | {"User ID": ["new"], "friend": ["u5"]}
    request = tf.constant([encoded(row)])
    before = _numbers(other.signatures["serving_default"](examples=request))
    sizes = {name: len(keys) for name, (keys, _) in embeddings().items()}
    assert {name: int(size) for name, size in changed.signatures["table_size"]().items()} == sizes
    keys = id_keys(declared().table_tags()["users"], tf.constant(["new", "u5"]))
    answer = changed.signatures["upsert_adagrad_8"](keys=keys, rows=tf.constant([[1.0] * 8, [-1.0] * 8]))
    assert int(answer["upserted"]) == 2
    assert int(changed.signatures["table_size"]()["adagrad_8"]) == sizes["adagrad_8"] + 1
    known = _known_ids(changed.signatures["score_blocks"](blocks=_blocks([row])))
    assert (known["user"], known["friend"]) == ([True], [True])
    after = _numbers(changed.signatures["serving_default"](examples=request))
    assert abs(after["watch"] - before["watch"]).max() > 1e-4
    assert int(changed.signatures["remove_adagrad_8"](keys=keys)["removed"]) == 2
    assert int(changed.signatures["table_size"]()["adagrad_8"]) == sizes["adagrad_8"] - 1
    _assert_alike(
        other.signatures["serving_default"](examples=request), {k: tf.constant(v) for k, v in before.items()}, within=0
    )
    assert {name: int(size) for name, size in other.signatures["table_size"]().items()} == sizes
    changed.release()
    np.testing.assert_array_equal(other.signatures["serving_default"](examples=request)["like"], before["like"])


@pytest.mark.long
@pytest.mark.parametrize(("form", "stored"), MODELS)
def test_requests_at_the_same_time_never_mix_and_insert_nothing(exported: Exported, form: str, stored: str) -> None:
    """Each thread has its own requests and checks its own answers, while other ids' rows come and go."""
    from sangam.trainer_module.transforms.keys import id_keys
    from tests.trainer_module.serving.sample_training import declared, ranked, rows

    model = tf.saved_model.load(exported(form, stored).model_dir)
    signatures = model.signatures
    sizes = _numbers(signatures["table_size"]())
    requests = [rows(20 + number, seed=100 + number) for number in range(4)]
    answers = [_numbers(signatures["serving_default"](examples=_examples(some))) for some in requests]
    ended, wrong = threading.Event(), []

    def keep_asking(number: int) -> None:
        examples, columns = _examples(requests[number]), ranked(requests[number])
        while not ended.is_set():
            for answer in (signatures["serving_default"](examples=examples), signatures["rank"](**columns)):
                if any(np.abs(answer[task] - answers[number][task]).max() > 1e-6 for task in answer):
                    wrong.append(number)

    threads = [threading.Thread(target=keep_asking, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    others = id_keys(declared().table_tags()["users"], tf.strings.as_string(tf.range(50)))
    for value in range(40):
        signatures["upsert_adagrad_8"](keys=others, rows=tf.fill([50, 8], float(value)))
        signatures["remove_adagrad_8"](keys=others)
    ended.set()
    for thread in threads:
        thread.join(60)
    assert not wrong
    assert _numbers(signatures["table_size"]()) == sizes


@pytest.mark.parametrize(
    ("features", "names"),
    [
        (["age", "spent"], set()),
        (["age", "history"], {"table_size", "upsert", "remove"}),
        (["user"], {"table_size", "upsert", "remove"}),
    ],
)
def test_a_ranker_has_the_signatures_that_its_features_need(
    served_world: Any, features: list[str], names: set[str]
) -> None:

    from sangam.trainer_module.ranker import Ranker
    from sangam.trainer_module.serving.signatures import ServedRanker
    from sangam.trainer_module.serving.stock_table import StockTable
    from sangam.trainer_module.serving.trained_rows import TrainedRows
    from sangam.trainer_module.transforms.graph import TransformGraph
    from tests.trainer_module.serving.sample_training import declared

    whole = declared()
    ranker = Ranker(whole.model_copy(update={"features": {name: whole.features[name] for name in features}}))
    none = TrainedRows(np.zeros(0, np.int64), lambda: iter(()))
    tables = {name: StockTable(group, "float32", none) for name, group in ranker.groups.items()}
    transform = TransformGraph(str(served_world / "transform"))
    served = ServedRanker(ranker, transform, ranker.weights.initial(seed=1), tables)
    assert set(served.signatures()) == names | {
        "serving_default",
        "rank",
        "rank_several",
        "score_blocks",
        "replace_dense",
    }
