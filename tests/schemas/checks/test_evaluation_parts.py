"""Metrics, slices, samplers and receivers of alerts of one's own in a spec: read, dumped, and their mistakes."""

import json
from pathlib import Path
from typing import Any

import pytest

from sangam.schemas.loading import json_schema, load_spec
from sangam.schemas.parts.judging import AlertTarget, Metric, NegativeSampler, Slice
from sangam.schemas.problems import SpecError
from sangam.schemas.spec import Spec
from sangam.schemas.spec.alerts import Alerts
from sangam.schemas.spec.negatives import Negatives
from tests.errors import tells
from tests.schemas.sample_specs import changed, loaded, write

PARTS = {"parts": ["tests.components.sample_parts"]}
WRONG = {"parts": ["tests.components.wrong_parts"]}
F_HALF = {"evaluation.metrics": {"f_half": {"kind": "f_beta", "beta": 0.5}}}
BY_INITIAL = {"kind": "initial", "column": "user_id"}
NEGATIVES = {"label": "like", "item": "friend", "user": "user_id", "item_columns": ["tags"]}


def gate(metric: str = "f_half", **bounds: Any) -> dict[str, Any]:
    return {"gates": [{"task": "like", "metric": metric, **(bounds or {"at_least": 0.3, "max_drop": 0.01})}]}


def test_a_spec_names_parts_of_each_role_and_its_json_makes_the_same_spec(tmp_path: Path) -> None:
    spec = loaded(
        tmp_path,
        PARTS
        | F_HALF
        | gate()
        | {"evaluation.slices": [[BY_INITIAL], ["friend", BY_INITIAL | {"name": "letter"}]]}
        | {"data.negatives": NEGATIVES | {"draw": {"kind": "tempered", "power": 0.75}}}
        | {"tasks.stars.missing_label": "mask"}
        | {"alerts": {"format": {"kind": "chat", "room": "ml"}}},
    )
    assert isinstance(spec.evaluation.metrics["f_half"], Metric)
    assert spec.evaluation.slice_names == (("initial",), ("friend", "letter"))
    assert all(isinstance(part, Slice) for part in spec.evaluation.sliced_by.values())
    assert spec.data.negatives
    assert isinstance(spec.data.negatives.draw, NegativeSampler)
    assert spec.alerts
    assert isinstance(spec.alerts.format, AlertTarget)
    assert spec.alerts.variables == ("SANGAM_ALERT_URL", "SANGAM_ALERT_KEY")
    assert Spec.model_validate_json(spec.model_dump_json()) == spec


def test_a_word_is_short_for_a_kind_without_other_keys_and_is_written_as_a_word() -> None:
    assert Alerts.model_validate({"format": "slack"}) == Alerts.model_validate({"format": {"kind": "slack"}})
    assert json.loads(Alerts.model_validate({"format": {"kind": "slack"}}).model_dump_json())["format"] == "slack"
    read = Negatives.model_validate({**NEGATIVES, "item_columns": (), "draw": {"kind": "popular"}})
    assert read.model_dump(mode="json")["draw"] == "popular"


def test_the_schema_has_the_keys_of_parts_that_are_named_and_of_no_others() -> None:
    own, product = json_schema(PARTS["parts"])["$defs"], json_schema()["$defs"]
    assert {"FBeta", "Initial", "Tempered", "Chat"} <= own.keys()
    assert not {"FBeta", "Initial", "Tempered", "Chat"} & product.keys()
    assert own["FBeta"]["properties"]["beta"]["description"] == "Weight of recall over precision."
    assert {"Uniform", "Popular", "Generic", "Slack", "PagerDuty"} <= product.keys()


@pytest.mark.parametrize(
    ("changes", "place", "value"),
    [
        (F_HALF | gate("f_haf"), "gates[0].metric", "(got 'f_haf') ... did you mean 'f_half'? one of: ... f_half"),
        (gate("aux", at_least=0.5), "gates[0].metric", "(got 'aux') ... did you mean 'auc'? one of: auc"),
        (F_HALF | gate(at_least=1.5), "gates[0].at_least", "never hold for f_half (got 1.5)"),
        (F_HALF | gate(max_rise=0.1), "gates[0].max_rise", "does not fit f_half (got 0.1) ... higher is better"),
        (F_HALF | gate("weighted_f_half"), "gates[0].metric", "no example_weight (got 'weighted_f_half') ... f_half"),
        (
            F_HALF | {"gates": [{"task": "stars", "metric": "f_half", "at_least": 0.3}]},
            "gates[0].metric",
            "regression (got 'f_half') ... rmse",
        ),
        (
            {"evaluation.metrics": {"f_half": {"kind": "f_bet"}}},
            "evaluation.metrics.f_half.kind",
            "(got 'f_bet') ... did you mean 'f_beta'?",
        ),
        (
            {"evaluation.metrics": {"f_half": {"kind": "f_beta", "beta": -1}}},
            "evaluation.metrics.f_half.beta",
            "(got -1) ... more than 0",
        ),
        (
            {"evaluation.metrics": {"auc": {"kind": "f_beta", "beta": 1}}},
            "evaluation.metrics.auc",
            "name of a value ... (got 'auc')",
        ),
        (
            WRONG | {"evaluation.metrics": {"bad": {"kind": "aimless"}}},
            "evaluation.metrics.bad",
            "wrong_parts.py ... AttributeError ... direction",
        ),
        (
            WRONG | {"evaluation.metrics": {"bad": {"kind": "for_ranks"}}},
            "evaluation.metrics.bad",
            "wrong_parts.py ... task_kinds (got ('ranks',)) ... binary",
        ),
        ({"evaluation.slices": [["letter"]]}, "evaluation.slices[0][0]", "no such feature ... (got 'letter')"),
        ({"evaluation.slices": [["Friend"]]}, "evaluation.slices[0][0]", "not a name (got 'Friend')"),
        (
            {"evaluation.slices": [[{"kind": "inital", "column": "friend"}]]},
            "evaluation.slices[0][0].kind",
            "(got 'inital') ... did you mean 'initial'?",
        ),
        (
            {"evaluation.slices": [[BY_INITIAL | {"column": "elsewhere"}]]},
            "evaluation.slices[0][0]",
            "reads a column that no feature ... (got 'elsewhere')",
        ),
        (
            {"evaluation.slices": [[BY_INITIAL | {"column": "age"}]]},
            "evaluation.slices[0][0]",
            "as string, and the spec as float (got 'age')",
        ),
        (
            {"evaluation.slices": [[BY_INITIAL | {"name": "friend"}]]},
            "evaluation.slices[0][0]",
            "also the name of a feature ... (got 'friend')",
        ),
        (
            {"data.negatives": NEGATIVES | {"draw": "populer"}, "tasks.stars.missing_label": "mask"},
            "data.negatives.draw",
            "(got 'populer') ... did you mean 'popular'? one of: 'uniform', 'popular'",
        ),
        ({"alerts": {"format": "slac"}}, "alerts.format", "(got 'slac') ... did you mean 'slack'?"),
        ({"alerts": {"format": "chat"}}, "alerts.format", "(got 'chat') ... 'generic', 'slack', 'pagerduty'"),
        (
            {"alerts": {"format": {"kind": "chat", "rom": "ml"}}},
            "alerts.format.rom",
            "(got 'ml') ... did you mean 'room'?",
        ),
        (
            {"alerts": {"format": "slack", "key_env": "KEY"}},
            "alerts.key_env",
            "no effect with format slack (got KEY)",
        ),
    ],
)
def test_a_mistake_is_told_with_its_place_and_what_may_be_meant(
    tmp_path: Path, changes: dict[str, Any], place: str, value: str
) -> None:
    path = write(tmp_path / "spec.yaml", changed(PARTS | changes))
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    assert any(tells(str(problem), place, value) for problem in caught.value.problems), str(caught.value)


def test_a_wrong_metric_is_no_unknown_one_for_its_gate(tmp_path: Path) -> None:
    wrong = {"evaluation.metrics": {"f_half": {"kind": "f_beta", "beta": -1}}}
    with pytest.raises(SpecError) as caught:
        load_spec(write(tmp_path / "spec.yaml", changed(PARTS | wrong | gate())))
    assert [str(problem.loc[-1]) for problem in caught.value.problems] == ["beta"]
