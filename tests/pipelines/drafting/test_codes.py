"""Codes told from amounts: worlds of many kinds of integers, each with the answer that is right for it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from sangam.pipelines.drafting.codes import NO_SIGNS, Signs, signs_of
from sangam.pipelines.drafting.values import Values
from tests.pipelines.drafting import sample_logs

ROWS = 20_000
Made = tuple[NDArray[Any], NDArray[Any]]
"""Integers of a column, and the chance of the label 1 in each row."""


def _popular(rng: np.random.Generator, number: int) -> NDArray[Any]:
    """Returns a name for each row, some far more often than others."""
    popularity = rng.lognormal(0, 1, number)
    return rng.choice(number, ROWS, p=popularity / popularity.sum())


def _named(rng: np.random.Generator, codes: NDArray[Any]) -> Made:
    """Returns codes, each with a chance of its own."""
    places = _popular(rng, len(codes))
    return codes[places], rng.beta(2, 3, len(codes))[places]


def _smooth(numbers: NDArray[Any]) -> Made:
    """Returns amounts, with a chance that depends on their rank."""
    ranks = np.argsort(np.argsort(numbers)) / len(numbers)
    return numbers, 0.1 + 0.5 * ranks


def _some(rng: np.random.Generator, low: int, high: int, number: int) -> NDArray[Any]:
    return np.sort(rng.choice(np.arange(low, high), number, replace=False))


def _none(rng: np.random.Generator, made: Made) -> Made:
    """Returns 0 in most rows."""
    is_none = rng.random(ROWS) < 0.7
    return np.where(is_none, 0, made[0]), np.where(is_none, 0.2, made[1])


CODES: dict[str, Callable[[np.random.Generator], Made]] = {
    "zip": lambda rng: _named(rng, _some(rng, 1001, 99_950, 700)),
    "postal": lambda rng: _named(
        rng, np.concatenate([_some(rng, 10_115, 14_199, 150), _some(rng, 80_331, 81_929, 90)])
    ),
    "product": lambda rng: _named(rng, _some(rng, 10_002, 90_214, 900)),
    "code": lambda rng: _named(rng, np.arange(1, 1200)),
    "store": lambda rng: _named(rng, _some(rng, 100, 2000, 120)),
    "numbered_again": lambda rng: _named(rng, np.arange(500)),
    "occupation": lambda rng: _named(rng, np.arange(1000, 1090) * 10),
}
AMOUNTS: dict[str, Callable[[np.random.Generator], Made]] = {
    "born_in": lambda rng: _smooth(rng.normal(1975, 15, ROWS).astype(int)),
    "old": lambda rng: _smooth(rng.gamma(9, 5, ROWS).astype(int)),
    "cents": lambda rng: _smooth(
        (rng.lognormal(3, 1, 400).round() * 100 + rng.choice([-1, -5, -50, 0], 400)).astype(int)[_popular(rng, 400)]
    ),
    "exact_cents": lambda rng: _named(rng, np.unique(rng.lognormal(7, 1, 400).astype(int))),
    "seen": lambda rng: _smooth(rng.negative_binomial(0.5, 0.002, ROWS)),
    "took_s": lambda rng: _smooth(rng.exponential(300, ROWS).astype(int)),
    "in_minutes": lambda rng: _smooth(
        np.where(rng.random(ROWS) < 0.5, rng.integers(1, 60, ROWS) * 5, rng.integers(1, 300, ROWS))
    ),
    "points": lambda rng: _smooth(rng.integers(0, 101, ROWS)),
    "thousandths": lambda rng: _smooth(rng.integers(0, 1001, ROWS)),
    "rounded": lambda rng: _smooth((rng.normal(50_000, 15_000, ROWS) // 500 * 500).astype(int)),
    "without_effect": lambda rng: (rng.integers(0, 2000, ROWS), np.full(ROWS, 0.3)),
    "waves": lambda rng: (days := rng.integers(0, 366, ROWS), 0.3 + 0.2 * np.sin(days / 58)),
    "mostly_none_of_few": lambda rng: _none(rng, _named(rng, _some(rng, 100, 4000, 100))),
    "mostly_none": lambda rng: _smooth(np.where(rng.random(ROWS) < 0.9, 0, rng.lognormal(7, 1, ROWS).astype(int))),
}


def _signs(made: Made, rng: np.random.Generator, others: Mapping[str, Any] | None = None, name: str = "it") -> Signs:
    numbers, chances = made
    columns = {name: numbers, "clicked": (rng.random(len(numbers)) < chances).astype(np.int64), **(others or {})}
    kinds = {each: "string" if np.asarray(column).dtype.kind == "U" else "int" for each, column in columns.items()}
    values = {each: Values(kinds[each], pa.array(column)) for each, column in columns.items()}  # type: ignore[arg-type]
    return signs_of(name, values, {"clicked": ""})


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", CODES)
def test_names_in_digits_are_codes(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = _signs(CODES[kind](rng), rng)
    assert found.is_code, found


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", AMOUNTS)
def test_what_counts_or_measures_is_an_amount(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = _signs(AMOUNTS[kind](rng), rng)
    assert not found.is_code, found
    assert not found.may_be_code, found


@pytest.mark.parametrize("numbers", [np.arange(ROWS) % 24, np.arange(ROWS) % 64, np.arange(ROWS), np.arange(900) % 90])
def test_few_numbers_few_rows_and_numbers_without_repeats_have_no_signs(numbers: NDArray[Any]) -> None:
    rng = np.random.default_rng(0)
    assert _signs((numbers, np.full(len(numbers), 0.3)), rng) == NO_SIGNS


def test_a_code_that_tells_nothing_of_the_label_has_its_category() -> None:
    rng = np.random.default_rng(4)
    codes = _some(rng, 1000, 9000, 300)
    places = _popular(rng, 300)
    category = np.array(["red", "green", "blue", "black"])[rng.integers(4, size=300)][places]
    made = codes[places], np.full(ROWS, 0.3)
    assert _signs(made, rng).may_be_code
    assert _signs(made, rng, {"color": category}).of_code == (
        "neighbors occur unequally often",
        "each has one color",
    )


def test_an_amount_in_bands_is_no_code() -> None:
    rng = np.random.default_rng(5)
    numbers, chances = _smooth(rng.integers(18, 95, ROWS))
    band = np.array(["young", "grown", "old", "older"])[np.digitize(numbers, [30, 50, 70])]
    assert not _signs((numbers, chances), rng, {"band": band}).of_code


@pytest.mark.parametrize("per_user", [1, 8])
def test_a_property_of_a_user_repeats_with_its_rows_and_is_no_code(per_user: int) -> None:
    """Each user's number of lines before is one of few, and its rows have the user's own labels."""
    rng = np.random.default_rng(6)
    users = _popular(rng, 300)
    own = rng.integers(0, 4000, [300, per_user])[users, rng.integers(per_user, size=ROWS)]
    made = own, rng.beta(2, 3, 300)[users]
    assert _signs(made, rng).of_code
    assert not _signs(made, rng, {"user_id": users}).of_code


def test_a_count_of_the_rows_of_users_rises_and_is_no_code() -> None:
    rng = np.random.default_rng(10)
    users = _popular(rng, 300)
    before = np.zeros(ROWS, np.int64)
    started = rng.integers(0, 4000, 300)
    for user in range(300):
        before[users == user] = started[user] + np.arange((users == user).sum()) // 9 * 9
    made = before, rng.beta(2, 3, 300)[users]
    assert _signs(made, rng).of_code
    assert _signs(made, rng, {"c1": users}) == Signs((), ("rises with the rows of each c1",))


def test_a_code_of_users_is_one_beside_their_ids() -> None:
    rng = np.random.default_rng(7)
    codes = _some(rng, 1001, 99_950, 150)
    of_user = rng.choice(150, 8000, p=rng.dirichlet(np.ones(150)))
    users = rng.integers(8000, size=ROWS)
    made = codes[of_user[users]], rng.beta(2, 3, 150)[of_user[users]]
    assert _signs(made, rng, {"user_id": users}).is_code


def test_a_name_of_amounts_counts() -> None:
    rng = np.random.default_rng(8)
    made = CODES["store"](rng)
    assert "named as an amount" in _signs(made, rng, name="price").of_amount


def test_a_draft_has_codes_as_ids_and_few_bins_for_what_may_be_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(9)
    codes, others = rng.permutation(np.arange(1000, 9000))[:160].reshape(2, 80)
    places, unlike = rng.choice(80, sample_logs.ROWS, p=rng.dirichlet(np.full(80, 2.0))), rng.beta(2, 3, 80)
    columns = {
        "wing": codes[places],
        "as_float": codes[places].astype(float),
        "tail": others[rng.choice(80, sample_logs.ROWS)],
        "age_days": rng.integers(0, 300, sample_logs.ROWS),
        "liked": (rng.random(sample_logs.ROWS) < unlike[places]).astype(int),
    }
    document, made = sample_logs.drafted(tmp_path, columns, ["liked"])
    few = {"kind": "piecewise_linear", "bins": 16}
    assert document["features"]["wing"] == {"kind": "id", "type": "int", "table": "wing"}
    assert document["features"]["as_float"] == {"kind": "numeric", "encoding": few}
    assert document["features"]["tail"] == {"kind": "numeric", "type": "int", "encoding": few}
    assert document["features"]["age_days"] == {"kind": "numeric", "type": "int"}
    told = {each.column: each.why for each in made.guesses.features}
    assert "different integers, a code: neighbors " in told["wing"]
    assert "few bins, check: a code?" in told["tail"]
