"""What TFX's cache compares of a step: nothing of where its Beam pipelines run, nor of who reads its metrics."""

from pathlib import Path
from typing import Any

import pytest

from sangam.pipelines.beam import step_args
from sangam.pipelines.local.runner import _without_beam_args
from sangam.schemas.loading import load_spec
from sangam.schemas.spec.beam import AnyBeam, FlinkBeam, LocalBeam
from sangam.schemas.spec.monitoring import Monitoring
from tests.paths import SPECS

pytestmark = pytest.mark.slow


def counted(beam: AnyBeam, root: Path, **changes: Any) -> tuple[dict[str, bytes], dict[str, list[str]]]:
    """Returns of each step what the cache key has of it, and the arguments that it runs with."""
    from tfx.dsl.compiler import compiler
    from tfx.orchestration.local import runner_utils

    from sangam.pipelines.pipeline import Placement, build

    spec = load_spec(SPECS / "short_video.yaml").model_copy(update={"beam": beam, **changes})
    pipeline = build(spec, Placement("2024-03-07", str(root / "logs"), str(root)), step_args(spec.beam))
    ir: Any = compiler.Compiler().compile(pipeline)
    deployment = runner_utils.extract_local_deployment_config(ir)
    keys, args = {}, {}
    for node in ir.nodes:
        name = node.pipeline_node.node_info.id
        whole = runner_utils.extract_executor_spec(deployment, name)
        parts = [_without_beam_args(whole), ir.pipeline_info, node.pipeline_node]
        keys[name] = b"".join(part.SerializeToString(deterministic=True) for part in parts)
        args[name] = list(getattr(whole, "beam_pipeline_args", ()))
    return keys, args


def test_a_step_that_moves_to_an_engine_comes_from_the_cache(tmp_path: Path) -> None:
    here, local = counted(LocalBeam(), tmp_path)
    there, flink = counted(FlinkBeam(runner="flink", master="flink:8081"), tmp_path)
    assert local["transform"] == list(step_args(LocalBeam())["transform"])
    assert "--runner=FlinkRunner" in flink["transform"]
    assert flink["trainer"] == []
    assert len(here) == 9
    assert here == there


def test_a_spec_whose_metrics_are_read_from_now_on_runs_nothing_again(tmp_path: Path) -> None:
    plain, _ = counted(LocalBeam(), tmp_path)
    read, _ = counted(LocalBeam(), tmp_path, monitoring=Monitoring(port=9400))
    assert plain == read
