"""Members of an ensemble against plain models, whose matrices are W * r s^T."""

import json
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from sangam.schemas.spec import RankerSpec
from sangam.trainer_module.dense.initial import initial
from sangam.trainer_module.dense.noise import Noise
from sangam.trainer_module.dense.weights import FlatWeights
from sangam.trainer_module.losses import logits_of_mean_prediction, predictions
from sangam.trainer_module.ranker import Ranker
from tests.trainer_module.models import oracles
from tests.trainer_module.models.sample_models import TASKS, Small, small
from tests.trainer_module.models.test_models import INTERACTIONS, MODELS, assert_close, declared
from tests.trainer_module.sample_job import declared as small_ranker

pytestmark = pytest.mark.slow

MEMBERS = 3


def member(oracle: dict[str, Any], number: int) -> dict[str, np.ndarray]:
    """Returns the weights of the plain model that a member is."""
    own = {}
    for name, weight in oracle.items():
        if name.endswith(("/r", "/s")):
            continue
        if f"{name}/r" in oracle:
            r, s = (np.take(oracle[f"{name}/{part}"], number, axis=-2) for part in "rs")
            # The last matrix of mixed crosses is one for all experts.
            rows = weight if r.ndim == weight.ndim - 1 else weight.reshape(len(r), -1)
            own[name] = (rows * r[..., :, None] * s[..., None, :]).reshape(weight.shape)
        else:
            own[name] = weight[number]
    return own


def of_members(kind: str, **changes: Any) -> Small:
    made = small(declared(kind, ensemble={"members": MEMBERS}, **changes))
    return made._replace(x=np.tile(made.x, (MEMBERS, 1)))


def test_members_computed_one_by_one_by_numpy_equal_the_batch_of_all() -> None:
    made = of_members("shared_bottom")
    first = made.x[: len(made.x) // MEMBERS].astype(np.float64)
    expected = [
        oracles.shared_bottom(member(made.oracle, number), x, TASKS, bottom_layers=2, layers=1)
        for number in range(MEMBERS)
        for x in first
    ]
    assert_close(made.logits(), np.array(expected))
    # A matrix has factors of its inputs and outputs, and biases, for each member.
    widths = ((15, 6), (6, 5), *[(5, 3), (3, 1)] * 3)
    assert made.size == sum(i * o + MEMBERS * (i + 2 * o) for i, o in widths)
    assert made.model.shared == ("bottom/0/0/w",)


@pytest.mark.parametrize("interaction", INTERACTIONS)
@pytest.mark.parametrize("kind", MODELS)
def test_each_member_of_every_architecture_is_the_plain_model_of_its_own_matrices(kind: str, interaction: str) -> None:
    made = of_members(kind, interaction=INTERACTIONS[interaction])
    plain = small(declared(kind, interaction=INTERACTIONS[interaction]))
    assert made.model.shared == plain.model.shared
    expected = []
    for number in range(MEMBERS):
        own = {name: tf.constant(array, tf.float32) for name, array in member(made.oracle, number).items()}
        assert {name: tuple(weight.shape) for name, weight in own.items()} == {
            weight.name: weight.shape for weight in plain.declared
        }
        expected.append(plain.model(own, tf.constant(plain.x)).numpy())
    np.testing.assert_allclose(made.logits(), np.concatenate(expected), rtol=1e-3, atol=1e-3)


def test_members_start_apart_by_the_signs_of_features_alone() -> None:
    made = of_members("mmoe", interaction=INTERACTIONS["dcn_v2"])
    starts = {weight.name: initial(weight, 1) for weight in made.declared}
    signs = {name for name, start in starts.items() if name.endswith("/r") and (start != 1).any()}
    features = [f"interaction/cross/{number}/w/r" for number in (0, 1)]
    assert signs == {*features, "interaction/deep/0/w/r", "experts/first/w/r", "expert_gates/w/r"}
    for name in signs:
        assert set(np.unique(starts[name])) == {-1.0, 1.0}
        assert 0.2 < np.mean(starts[name] > 0) < 0.8
    assert all(
        (start == 1).all() for name, start in starts.items() if name.endswith(("/r", "/s")) and name not in signs
    )
    flat = FlatWeights(made.declared)
    logits = made.model(flat.unpack(tf.constant(flat.initial(1))), tf.constant(made.x)).numpy()
    one, two, three = np.split(logits, MEMBERS)
    assert np.abs(one - two).max() > 0.01 < np.abs(two - three).max()


def _ranker(**model: Any) -> Ranker:
    plain = small_ranker()
    document = json.loads(plain.model_dump_json())
    document["model"] |= model
    return Ranker(RankerSpec.model_validate_json(json.dumps(document)))


def test_of_members_with_equal_factors_the_logits_and_losses_are_those_of_the_plain_model() -> None:
    plain, ranker = _ranker(), _ranker(ensemble={"members": MEMBERS})
    weights = plain.weights.unpack(tf.constant(plain.weights.initial(3) + 0.01))
    equal = {}
    for weight in ranker.weights.weights:
        if weight.name.endswith(("/r", "/s")):
            equal[weight.name] = tf.ones(weight.shape)
        else:
            one = weights[weight.name]
            equal[weight.name] = one if weight.shape == one.shape else tf.stack([one] * MEMBERS)
    x = tf.random.stateless_normal([4, plain.inputs.width], [1, 2])
    expected = plain.logits_of_inputs(weights, x)
    np.testing.assert_allclose(ranker.logits_of_inputs(equal, x), expected, rtol=1e-5, atol=1e-6)
    batch = {"labels": tf.constant([[1.0, 1.0], [0.0, np.nan], [1.0, 0.0], [0.0, 2.0]])}
    np.testing.assert_allclose(
        ranker.loss_sums(tf.tile(expected, [MEMBERS, 1]), batch), plain.loss_sums(expected, batch), rtol=1e-5
    )


def test_the_loss_is_the_mean_of_the_members_losses() -> None:
    plain, ranker = _ranker(), _ranker(ensemble={"members": 2})
    one, two = (tf.random.stateless_normal([3, 2], [seed, 1]) for seed in (1, 2))
    batch = {"labels": tf.constant([[1.0, 1.0], [0.0, np.nan], [1.0, 0.0]])}
    expected = (plain.loss_sums(one, batch) + plain.loss_sums(two, batch)) / 2
    np.testing.assert_allclose(ranker.loss_sums(tf.concat([one, two], 0), batch), expected, rtol=1e-6)


def test_dropout_of_a_table_is_of_its_vectors_alone_and_differs_by_member() -> None:
    document = json.loads(small_ranker().model_dump_json())
    document["model"]["ensemble"] = {"members": 2}
    document["tables"]["users"]["dropout"] = 0.5
    ranker = Ranker(RankerSpec.model_validate_json(json.dumps(document)))
    seen: list[np.ndarray] = []
    ranker._model = lambda weights, x_BI, noise: seen.append(x_BI.numpy()) or x_BI[:, :2]  # type: ignore[assignment]
    ranker.logits_of_members({}, tf.ones([300, ranker.inputs.width]), Noise(tf.constant([1, 2])))
    place = 0
    for name, width in ranker.inputs.blocks:
        [vectors] = (x[:, place : place + width] for x in seen)
        place += width
        if name != "user":
            assert (vectors == 1).all()
            continue
        assert set(np.unique(vectors)) == {0.0, 2.0}
        assert vectors.mean() == pytest.approx(1, abs=0.1)
        assert np.mean(vectors[:300] == vectors[300:]) == pytest.approx(0.5, abs=0.1)
    assert ranker.has_dropout
    assert not _ranker().has_dropout


TASK_KINDS: dict[str, dict[str, Any]] = {
    "click": {"kind": "binary"},
    "skip": {"kind": "binary", "keep_negatives": 0.1},
    "rating": {"kind": "regression"},
    "paid": {"kind": "regression", "loss": {"kind": "huber"}},
    "spent": {"kind": "regression", "loss": {"kind": "log"}},
    "seconds": {"kind": "watch_time", "unit": 60},
}


def test_the_score_is_the_mean_of_the_members_scores() -> None:
    document = json.loads(small_ranker().model_dump_json()) | {"tasks": TASK_KINDS}
    spec = RankerSpec.model_validate_json(json.dumps(document))
    tasks = tuple(TASK_KINDS)
    logits = np.random.default_rng(0).normal(scale=2, size=(3, 5, len(tasks))).astype(np.float32)
    found = predictions(spec, tasks, logits_of_mean_prediction(spec, tasks, tf.constant(logits)), {})
    of_each = [predictions(spec, tasks, tf.constant(of_member), {}) for of_member in logits]
    for task in tasks:
        np.testing.assert_allclose(
            found[task], np.mean([each[task] for each in of_each], axis=0), rtol=1e-5, err_msg=task
        )


def test_the_logit_of_certain_members_is_finite() -> None:
    spec = RankerSpec.model_validate_json(
        json.dumps(json.loads(small_ranker().model_dump_json()) | {"tasks": {"click": {"kind": "binary"}}})
    )
    logits = tf.constant([[[200.0], [-200.0], [200.0]], [[100.0], [-100.0], [-200.0]]])
    found = logits_of_mean_prediction(spec, ("click",), logits)[:, 0]
    np.testing.assert_allclose(found, [100 + np.log(2), -100 - np.log(2), 0], rtol=1e-5, atol=1e-5)
