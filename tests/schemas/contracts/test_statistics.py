"""What of a base's statistics a spec keeps, by the declaration of each feature."""

import json
import math
import re
from typing import Any

import pytest

from schemas.contracts.statistics import (
    Boundaries,
    FeatureStatistics,
    Scale,
    Statistics,
    compared,
    to_analyze,
    without_analysis,
)
from schemas.spec import Inputs

PRICE = {"kind": "numeric", "clip": [0, 5]}
PLAIN = {"kind": "numeric", "normalize": "none"}
CUT = {"kind": "buckets", "num_buckets": 2, "table": "cuts"}
AGE = {"kind": "age", "since": "made", "at": "time"}
USER = {"kind": "id", "type": "int", "table": "users"}


def inputs_of(**features: dict[str, Any]) -> Inputs:
    return Inputs.model_validate_json(json.dumps({"features": features, "tasks": {"like": {"kind": "binary"}}}))


BASE_INPUTS = inputs_of(price=PRICE, plain=PLAIN, cut=CUT, age=AGE, user=USER)
FOUND = {"price": Scale(offset=2.5, width=0.1), "cut": Boundaries(lowest=(1.0,)), "age": Scale(offset=1, width=0)}
BASE = Statistics(
    code="c",
    features={
        name: FeatureStatistics(spec=each.spec, analyzed=FOUND.get(name))
        for name, each in without_analysis(BASE_INPUTS).items()
    },
)


def test_ids_have_no_statistics_and_numbers_as_they_are_need_none() -> None:
    assert set(BASE.features) == {"price", "plain", "cut", "age"}
    assert to_analyze(BASE_INPUTS, ()) == ("price", "cut", "age")


def test_equal_declarations_keep_everything_and_nothing_is_told() -> None:
    found = compared(BASE_INPUTS, BASE, code="c")
    assert found.kept == BASE.features
    assert (found.new, found.changed, found.dropped) == ((), {}, ())
    assert to_analyze(BASE_INPUTS, found.kept) == ()
    assert found.notes(BASE_INPUTS) == ()


def test_a_new_feature_is_analyzed_a_removed_one_dropped_and_the_others_stay() -> None:
    now = inputs_of(price=PRICE, plain=PLAIN, cut=CUT, fresh={**AGE, "unit": "days"}, user=USER)
    found = compared(now, BASE, code="c")
    assert set(found.kept) == {"price", "plain", "cut"}
    assert (found.new, found.changed, found.dropped) == (("fresh",), {}, ("age",))
    [note] = found.notes(now)
    assert note.endswith(": fresh")


@pytest.mark.parametrize(
    ("name", "feature", "told"),
    [
        ("price", {**PRICE, "clip": [0, 6]}, "clip was [0.0, 5.0], is [0.0, 6.0]"),
        ("price", {**PRICE, "log": True}, "log was False, is True"),
        ("price", {**PRICE, "normalize": "minmax"}, "normalize was zscore, is minmax"),
        ("price", {**PRICE, "missing": 0}, "missing was not given, is 0.0"),
        ("price", {**PRICE, "column": "cost"}, "column was price, is cost"),
        ("plain", {**PLAIN, "clip": [0, 6]}, "clip was not given, is [0.0, 6.0]"),
        ("cut", {**CUT, "num_buckets": 3}, "num_buckets was 2, is 3"),
        ("age", {**AGE, "unit": "days"}, "unit was hours, is days"),
    ],
)
def test_whatever_moves_a_features_values_changes_it(name: str, feature: dict[str, Any], told: str) -> None:
    features = {"price": PRICE, "plain": PLAIN, "cut": CUT, "age": AGE} | {name: feature}
    found = compared(inputs_of(**features), BASE, code="c")
    assert found.changed == {name: told}
    assert set(found.kept) == set(features) - {name}
    assert f"({name}: {told})" in found.notes(inputs_of(**features))[0]


@pytest.mark.parametrize(
    ("name", "feature"),
    [
        ("price", {**PRICE, "at_serving": 1.0}),
        ("price", {**PRICE, "column": "price"}),
        ("cut", {**CUT, "table": "others", "missing_row": True}),
    ],
)
def test_what_moves_no_value_keeps_the_statistics(name: str, feature: dict[str, Any]) -> None:
    features = {"price": PRICE, "plain": PLAIN, "cut": CUT, "age": AGE} | {name: feature}
    assert compared(inputs_of(**features), BASE, code="c").changed == {}


def test_other_code_keeps_nothing_and_says_so_in_one_sentence() -> None:
    now = inputs_of(price=PRICE, fresh=AGE)
    found = compared(now, BASE, code="d")
    assert (found.kept, found.new, found.dropped) == ({}, ("fresh",), ("age", "cut", "plain"))
    [note] = found.notes(now)
    assert note.startswith("the code of Transform")
    assert re.search(r"\bprice\b", note)


def test_lost_statistics_keep_nothing() -> None:
    found = compared(BASE_INPUTS, None, code="c", lost="the file is gone")
    assert set(found.changed) == {"price", "plain", "cut", "age"}
    note = found.notes(BASE_INPUTS)[0]
    assert note.startswith("the file is gone: ")
    assert "age, cut, price" in note


def test_the_file_holds_every_float_exactly_and_those_that_are_no_numbers() -> None:
    odd = Statistics(
        code="c",
        features={
            "none": FeatureStatistics(spec={"clip": None}, analyzed=Scale(offset=math.inf, width=-math.inf)),
            "far": FeatureStatistics(spec={}, analyzed=Boundaries(lowest=(0.1 + 2**-30, 3.4028234663852886e38))),
        },
    )
    assert Statistics.model_validate_json(odd.model_dump_json(indent=2)) == odd
    nothing = Scale(offset=math.nan, width=1.0)
    assert math.isnan(Scale.model_validate_json(nothing.model_dump_json()).offset)
