"""What a served ranker computes once a request; that its graph does so: serving/test_candidates of the trainer."""

from pathlib import Path
from typing import Any

import pytest

from sangam.schemas.derived.once import once_a_request
from tests.schemas.sample_specs import loaded

CROSSES = {"kind": "dcn_v2", "rank": 2}
OF_A_CROSS = "it multiplies columns of the user with those of the candidate"


@pytest.mark.parametrize(
    ("model", "matrices"),
    [
        ({"kind": "mmoe"}, ["experts/first/w", "expert_gates/w"]),
        ({"kind": "single_task"}, ["towers/first/w"]),
        ({"kind": "ple"}, ["levels/0/experts/first/w", "levels/0/expert_gates/w"]),
        (
            {"kind": "single_task", "interaction": CROSSES | {"deep_units": [8]}},
            ["interaction/cross/0/v", "interaction/cross/1/v", "interaction/deep/0/w", "towers/first/w"],
        ),
        ({"kind": "single_task", "interaction": CROSSES | {"rank": 9}}, ["interaction/cross/0/v"]),
        ({"kind": "single_task", "interaction": CROSSES, "ensemble": {"members": 2}}, ["interaction/cross/0/v"]),
        (
            {"kind": "single_task", "interaction": {"kind": "dcn_v2", "deep_units": [8]}},
            ["interaction/cross/0/w", "interaction/deep/0/w"],
        ),
    ],
)
def test_the_users_products_are_those_of_first_layers(
    tmp_path: Path, model: dict[str, Any], matrices: list[str]
) -> None:
    assert list(once_a_request(loaded(tmp_path, {"model": model}).ranker()).matrices) == matrices


def test_what_cannot_be_split_is_said(tmp_path: Path) -> None:
    to_target = {
        "tables": {"users": {"dim": 4}, "tags": {"dim": 4}},
        "features.recent.encoder": {"kind": "din", "target": "friend"},
        "features.recent.table": "users",
    }
    dots = loaded(tmp_path, {**to_target, "model": {"kind": "mmoe", "interaction": {"kind": "dlrm"}}})
    found = once_a_request(dots.ranker())
    assert found.each == (("encoder recent", "attends to friend"), ("interaction dlrm", "of whole vectors"))
    assert (found.matrices, found.encoders) == ((), ())
    full = loaded(tmp_path, {"model": {"kind": "mmoe", "interaction": {"kind": "dcn_v2"}}})
    assert once_a_request(full.ranker()).each == (("what follows a cross", OF_A_CROSS),)


def test_lists_that_attend_to_no_candidate_are_encoded_once(tmp_path: Path) -> None:
    for kind in ("hstu", "target_transformer"):
        to_target = {
            "tables": {"users": {"dim": 4}, "tags": {"dim": 4}},
            "features.recent.encoder": {"kind": kind, "target": "friend"},
            "features.recent.table": "users",
        }
        found = once_a_request(loaded(tmp_path, to_target).ranker())
        assert found.encoders == ("recent",)
        assert [what for what, _ in found.each] == ["encoder recent of friend"]


def test_the_line_names_all_of_it(tmp_path: Path) -> None:
    once = "rank: columns of one row, once a request: transform, look-ups, pooling, encoder recent"
    assert once_a_request(loaded(tmp_path).ranker()).text() == (
        f"{once}, their products with experts/first, expert_gates; for each candidate: all later layers"
    )
    half = loaded(tmp_path, {"training.dense_precision": "bfloat16"})
    assert once_a_request(half.ranker()).text() == (
        f"{once}; for each candidate: all later layers; "
        "all products (a sum of two products is rounded otherwise in bfloat16)"
    )
