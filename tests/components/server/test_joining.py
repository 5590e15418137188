"""Requests joined for one call, and what each gets of it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sangam.components.server.joining import Joined
from sangam.components.server.model import LoadedModel
from sangam.components.server.signature import Signature
from tests.components.server.sample_models import candidates

pytestmark = pytest.mark.slow

Inputs = dict[str, NDArray[Any]]
MAX_BYTES = 2**20


@pytest.fixture(scope="module")
def model(models: dict[int, Path]) -> LoadedModel:
    """A model in this process."""
    return LoadedModel(models[1], 1)


@pytest.fixture
def rank(model: LoadedModel) -> Signature:
    """Its signature of candidates."""
    return model.signature("rank")


def _with_topics(count: int, topics: list[list[int]], lengths: list[int]) -> Inputs:
    return {**candidates(count), "topics": np.array(topics), "topics_length": np.array(lengths)}


def _joined(rank: Signature, *parts: Inputs) -> Joined:
    first, *others = parts
    joined = Joined(rank, first, rank.num_rows(first), MAX_BYTES)
    for other in others:
        assert joined.add(other, rank.num_rows(other))
    return joined


def test_each_request_gets_its_own_scores(model: LoadedModel, rank: Signature) -> None:
    parts = [
        _with_topics(3, [[1, 2]], [2]),
        _with_topics(1, [[5, 6, 7, 8]], [3]),
        _with_topics(2, [[1], [2]], [1, 0]),
        candidates(0),
    ]
    joined = _joined(rank, *parts)
    assert joined.num_rows == 6
    divided = joined.divided(model.run(rank, joined.arrays()))
    assert divided is not None
    for part, outputs in zip(parts[:3], divided, strict=False):
        alone = model.run(rank, part)
        for name in alone:
            np.testing.assert_array_equal(outputs[name], alone[name])
    assert divided[3]["like"].shape == (0, 1)


def test_one_request_is_passed_on_as_it_is(rank: Signature) -> None:
    one = candidates(4)
    assert _joined(rank, one).arrays() is one


def test_outputs_without_a_row_for_each_are_not_divided(rank: Signature) -> None:
    joined = _joined(rank, candidates(2), candidates(3))
    assert joined.divided({"like": np.zeros([1, 1])}) is None


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(_with_topics(2, [[1, 2]], [3]), id="a length beyond its own list"),
        pytest.param(_with_topics(2, [[1, 2]], [1, 1]), id="more lengths than lists"),
        pytest.param(_with_topics(100, [[1] * 1000], [1000]), id="a user's list too long to repeat"),
        pytest.param(_with_topics(1, [[1] * 2**17], [2**17]), id="too large when padded"),
    ],
)
def test_what_is_better_alone_is_not_joined(rank: Signature, other: Inputs) -> None:
    for one, two in ((candidates(2), other), (other, candidates(2))):
        assert not Joined(rank, one, rank.num_rows(one), MAX_BYTES).add(two, rank.num_rows(two))


def test_only_signatures_of_rows_are_joined(model: LoadedModel) -> None:
    joinable = {name for name, signature in model.signatures.items() if signature.is_joinable}
    assert joinable == {"rank", "serving_default"}
