"""The section `tune`: what may be searched over, and that every end of a range makes a valid spec."""

from pathlib import Path
from typing import Any

import pytest

from sangam.schemas.loading import load_spec, parse_spec
from sangam.schemas.loading.documents import value_at, whole, with_values
from sangam.schemas.problems import SpecError
from sangam.schemas.spec import digest
from tests.errors import tells
from tests.schemas.sample_specs import changed, write

LEARNING_RATE = "training.dense_optimizer.learning_rate"
RATE = {"kind": "float", "low": 1e-4, "high": 1e-2, "log": True}
SPLITS = {"data": {"kind": "splits", "format": "parquet", "splits": {"train": "a/*", "eval": "b/*"}}}
EXPERTS = {"kind": "int", "low": 2, "high": 8}


def _tuned(ranges: dict[str, Any], changes: dict[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    validation = {"data.validation_days": 1, "tune": {"objective": "like", "ranges": ranges, **settings}}
    return changed({**validation, **(changes or {})})


@pytest.mark.parametrize(
    "ranges",
    [
        {LEARNING_RATE: RATE, "model.num_experts": EXPERTS},
        {"model": {"kind": "choice", "values": [{"kind": "mmoe"}, {"kind": "ple", "num_levels": 1}]}},
        {"model.expert_units": {"kind": "choice", "values": [[64, 32], [32]]}},
        {"tables.users.dim": {"kind": "int", "low": 4, "high": 16, "step": 4}},
        {"tasks.like.weight": {"kind": "float", "low": 0.5, "high": 2}},
        {"training.clip_gradient_norm": {"kind": "float", "low": 0.1, "high": 10, "log": True}},
        {"training.schedule.warmup_steps": {"kind": "int", "low": 0, "high": 100}},
    ],
    ids=lambda ranges: ", ".join(ranges),
)
def test_ranges_may_be_of_model_tables_training_and_weights(tmp_path: Path, ranges: dict[str, Any]) -> None:
    tune = load_spec(write(tmp_path / "spec.yaml", _tuned(ranges))).tune
    assert tune
    assert list(tune.ranges) == list(ranges)


@pytest.mark.parametrize(
    ("document", "place", "value"),
    [
        (
            _tuned({LEARNING_RATE: {"kind": "float", "low": 0, "high": 1}}),
            f"tune.ranges.{LEARNING_RATE}.low",
            f"(got 0.0) ... {LEARNING_RATE}",
        ),
        (
            _tuned({"model": {"kind": "choice", "values": [{"kind": "mmoe"}, {"kind": "moe"}]}}),
            "tune.ranges.model.values[1]",
            '(got {"kind": "moe"}) ... model.kind',
        ),
        (
            _tuned({"model.num_expert": EXPERTS}),
            "model.num_expert",
            "(got 2) ... 'num_experts'",
        ),
        (
            _tuned({"tables.users.admission.at_least": EXPERTS}),
            "tune.ranges.tables.users.admission.at_least",
            "(got tables.users.admission.at_least) ... tables.users.admission",
        ),
        (_tuned({"data.train_days": EXPERTS}), "tune.ranges.data.train_days", "(got data.train_days)"),
        (
            _tuned({"size": {"kind": "together", "values": {"small": {"gates": []}, "large": {}}}}),
            "tune.ranges.size.values.small",
            "(got gates)",
        ),
        (
            _tuned({"size": {"kind": "together", "values": {"small": {"model.num_experts": 0}, "large": {}}}}),
            "tune.ranges.size.values.small",
            '(got "small") ... model.num_experts',
        ),
        (_tuned({"training.seed": EXPERTS}), "tune.ranges.training.seed", "(got training.seed)"),
        (_tuned({"cluster.ranks": EXPERTS}), "tune.ranges.cluster.ranks", "(got cluster.ranks)"),
        (
            _tuned({"model": {"kind": "choice", "values": [{"kind": "mmoe"}, 1]}, "model.num_experts": EXPERTS}),
            "tune.ranges.model.num_experts",
            "(got model.num_experts, in model)",
        ),
        (
            _tuned({"model.num_experts": {"kind": "choice", "values": [2, 2]}}),
            "tune.ranges.model.num_experts.values",
            "(got 2)",
        ),
        (
            _tuned({"model.num_experts": {"kind": "int", "low": 8, "high": 2}}),
            "tune.ranges.model.num_experts.low",
            "(got 8, 2)",
        ),
        (
            _tuned({"model.num_experts": {**EXPERTS, "step": 4}}),
            "tune.ranges.model.num_experts.high",
            "(got 8, step 4) ... 6",
        ),
        (
            _tuned({"model.num_experts": {**EXPERTS, "step": 2, "log": True}}),
            "tune.ranges.model.num_experts.step",
            "(got 2)",
        ),
        (_tuned({LEARNING_RATE: {**RATE, "low": 0.0}}), f"tune.ranges.{LEARNING_RATE}.low", "(got 0.0)"),
        (
            _tuned({LEARNING_RATE: RATE}, {"data.validation_days": 0}),
            "tune",
            "(got no data.validation_days) ... data.validation_days",
        ),
        (
            _tuned({LEARNING_RATE: RATE}, SPLITS),
            "tune",
            "(got no data.splits.validation) ... data.splits.validation: {fraction: 0.1}",
        ),
        (_tuned({LEARNING_RATE: RATE}, objective="share"), "tune.objective", "(got 'share')"),
        (_tuned({LEARNING_RATE: RATE}, objective=None), "tune", "(got no objective)"),
        (
            _tuned({LEARNING_RATE: RATE}, pruning={"kind": "median"}),
            "tune.pruning",
            "(got after_epochs ..., epochs ...)",
        ),
        (_tuned({}), "tune.ranges", "is missing ... auto"),
        (
            _tuned({LEARNING_RATE: RATE}, pruning={"kind": "successive_halving", "first_epochs": 3}),
            "tune.pruning.first_epochs",
            "(got first_epochs 3, epochs ...)",
        ),
        (_tuned({"model.": EXPERTS}), "tune.ranges.model.", "(got 'model.')"),
    ],
    ids=lambda value: value[:60] if isinstance(value, str) else "",
)
def test_what_cannot_be_searched_is_told(tmp_path: Path, document: dict[str, Any], place: str, value: str) -> None:
    with pytest.raises(SpecError) as raised:
        load_spec(write(tmp_path / "spec.yaml", document))
    assert tells(str(raised.value), place, value)


def test_pruning_may_wait_for_the_most_epochs_of_a_range(tmp_path: Path) -> None:
    ranges = {"training.epochs": {"kind": "int", "low": 1, "high": 3}}
    assert load_spec(write(tmp_path / "spec.yaml", _tuned(ranges, pruning={"kind": "median"})))


def test_a_search_changes_neither_ranker_nor_inputs(tmp_path: Path) -> None:
    tuned = _tuned({LEARNING_RATE: RATE})
    specs = [load_spec(write(tmp_path / "spec.yaml", tuned))]
    del tuned["tune"]
    specs.append(load_spec(write(tmp_path / "spec.yaml", tuned)))
    assert digest(specs[0].ranker()) == digest(specs[1].ranker())
    assert digest(specs[0].inputs()) == digest(specs[1].inputs())


def test_a_value_goes_to_its_place_and_parts_left_out_are_written_out(tmp_path: Path) -> None:
    spec, document, _ = parse_spec(write(tmp_path / "spec.yaml", changed({})))
    before = whole(spec)
    made = with_values(document, before, {"training.schedule.warmup_steps": 7, "model.num_experts": 3})
    assert made["training"]["schedule"] == {"kind": "constant", "warmup_steps": 7}
    assert made["model"] == {"kind": "mmoe", "num_experts": 3}
    assert "schedule" not in document["training"]
    assert value_at(before, "training.schedule.warmup_steps") == 0
    assert value_at(before, "tables.users.admission.at_least") is None
