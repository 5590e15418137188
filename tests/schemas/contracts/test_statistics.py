"""What of a base's statistics a spec keeps, by the declaration of each feature."""

import json
import math
import re
from typing import Any

import pytest

from sangam.schemas.contracts.statistics import (
    Bins,
    Boundaries,
    FeatureStatistics,
    Scale,
    Statistics,
    compared,
    to_analyze,
    without_analysis,
)
from sangam.schemas.spec import Inputs

PRICE = {"kind": "numeric", "normalize": "zscore", "clip": [0, 5]}
PLAIN = {"kind": "numeric", "normalize": "none"}
CUT = {"kind": "buckets", "num_buckets": 2, "table": "cuts"}
BINNED: dict[str, Any] = {"kind": "numeric", "encoding": {"kind": "piecewise_linear", "bins": 4}}
AGE = {"kind": "age", "since": "made", "at": "time"}
USER = {"kind": "id", "type": "int", "table": "users"}


def inputs_of(**features: dict[str, Any]) -> Inputs:
    return Inputs.model_validate_json(json.dumps({"features": features, "tasks": {"like": {"kind": "binary"}}}))


BASE_INPUTS = inputs_of(price=PRICE, plain=PLAIN, cut=CUT, age=AGE, user=USER)
WITH_BINS = inputs_of(price=PRICE, binned=BINNED)
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
        (
            "price",
            {**BINNED, "clip": [0, 5]},
            "encoding was not given, is {kind: piecewise_linear, bins: 4, dim: 8, tail: clip}, "
            "normalize was zscore, is not given",
        ),
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
    ("feature", "task", "told"),
    [
        ({"days": 7}, {}, "days was 30, is 7"),
        ({"smoothing": 5}, {}, "smoothing was 20.0, is 5.0"),
        ({"by": {"user": "int", "item": "int"}}, {}, "by was {user: int}, is {user: int, item: int}"),
        ({"log": True}, {}, "log was False, is True"),
        ({}, {"label": "loved"}, "label was like, is loved"),
        ({}, {"only_where": "seen"}, "only_where was not given, is seen"),
        ({}, {"weight": 2.0}, None),
    ],
)
def test_a_rate_is_another_one_with_other_days_ids_or_labels(
    feature: dict[str, Any], task: dict[str, Any], told: str | None
) -> None:
    def inputs(feature: dict[str, Any], task: dict[str, Any]) -> Inputs:
        rate = {"kind": "rate", "task": "like", "by": {"user": "int"}, "days": 30, **feature}
        return Inputs.model_validate_json(
            json.dumps({"features": {"rate": rate}, "tasks": {"like": {"kind": "binary", **task}}})
        )

    base = Statistics(code="c", features=without_analysis(inputs({}, {})))
    found = compared(inputs(feature, task), base, code="c")
    assert set(found.changed) == ({"rate"} if told else set())
    assert found.changed.get("rate") == told
    assert to_analyze(inputs({}, {}), ()) == ("rate",)


def test_whatever_an_encoding_says_changes_its_feature_and_a_standard_one_says_nothing() -> None:
    standard = {**PRICE, "encoding": {"kind": "standard"}}
    assert compared(inputs_of(price=standard), BASE, code="c").changed == {}
    assert "encoding" not in BASE.features["price"].spec
    bins = Bins(ends=(0.0, 0.5, 2.0))
    specs = without_analysis(WITH_BINS)
    base = Statistics(
        code="c",
        features={
            "price": BASE.features["price"],
            "binned": FeatureStatistics(spec=specs["binned"].spec, analyzed=bins),
        },
    )
    assert to_analyze(WITH_BINS, ()) == ("price", "binned")
    assert compared(WITH_BINS, base, code="c").kept["binned"].analyzed == bins
    assert Statistics.model_validate_json(base.model_dump_json()) == base
    for now in ({"bins": 5}, {"dim": 3}, {"tail": "linear"}):
        changed = {**BINNED, "encoding": BINNED["encoding"] | now}
        assert set(compared(inputs_of(price=PRICE, binned=changed), base, code="c").changed) == {"binned"}
    learned = inputs_of(price=PRICE, binned={**BINNED, "missing": "learned"})
    assert compared(learned, base, code="c").changed == {"binned": "missing was not given, is learned"}


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
