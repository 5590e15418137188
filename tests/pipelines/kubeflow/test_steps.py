"""What a step's container is given beside its command."""

from pathlib import Path
from typing import Any

import pytest

from sangam.components.kfp_entrypoint.invocation import TFX_EXECUTORS
from sangam.pipelines.kubeflow.steps import container
from sangam.schemas.contracts.monitoring import from_variables
from sangam.schemas.spec.cluster import StepName
from sangam.schemas.spec.monitoring import Monitoring
from tests.pipelines.kubeflow.compiled_files import TARGET, changed_spec

pytestmark = pytest.mark.slow
_ORIGINAL = {"image": "", "command": ["python", "-m", TFX_EXECUTORS], "args": []}


def _given(folder: Path, step: StepName, changes: dict[str, Any]) -> dict[str, Any]:
    return container(_ORIGINAL, step, changed_spec(folder, "short_video", changes), TARGET)


def _environment(made: dict[str, Any]) -> dict[str, str]:
    return {variable["name"]: variable["value"] for variable in made["env"]}


def test_the_trainer_learns_of_metrics_by_its_environment_alone(tmp_path: Path) -> None:
    plain, told = (_given(tmp_path, "trainer", changes) for changes in ({}, {"monitoring": {"port": 9400}}))
    assert from_variables(_environment(told)) == Monitoring(port=9400)
    assert {**told, "env": plain["env"]} == plain
    assert _given(tmp_path, "evaluator", {"monitoring": {}}) == _given(tmp_path, "evaluator", {})
