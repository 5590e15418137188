"""How long a pod of a step may run, where the spec does not say."""

from pathlib import Path
from typing import Any

import pytest

from sangam.schemas.derived.timeouts import timeout_s
from sangam.schemas.spec.cluster import StepName
from tests.schemas.sample_specs import loaded

HOUR = 3600
ARRIVAL = {"data.arrival": {"marker": "{YYYY}-{MM}-{DD}/_SUCCESS", "wait_s": 1000}}
SHORT_TRAINING = {"cluster": {"deadline_s": HOUR, "heartbeat_timeout_s": 60}}
DECLARED = {"cluster": {"default": {"timeout_s": 90}, "steps": {"trainer": {"timeout_s": 30000}}}}


@pytest.mark.parametrize(
    ("changes", "step", "seconds"),
    [
        # Of schema_gen to transform, which share a pod.
        ({}, "transform", 4 * 6 * HOUR),
        ({"cluster": {"share_processes": []}}, "transform", 6 * HOUR),
        ({}, "example_gen", 6 * HOUR),
        (ARRIVAL, "example_gen", 6 * HOUR + 1000),
        (ARRIVAL, "transform", 4 * 6 * HOUR),
        ({}, "trainer", 7 * HOUR),
        (SHORT_TRAINING, "trainer", 2 * HOUR),
        (DECLARED, "trainer", 30000),
        (DECLARED, "transform", 4 * 90),
    ],
)
def test_a_step_ends_even_if_nobody_says_when(
    tmp_path: Path, changes: dict[str, Any], step: StepName, seconds: int
) -> None:
    assert timeout_s(loaded(tmp_path, changes), step) == seconds
