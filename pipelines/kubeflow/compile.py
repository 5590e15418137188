"""Compiles the pipeline of a spec to one file: YAML for Kubeflow Pipelines v2 (spec 2.1), JSON for Vertex AI."""

import dataclasses
import json
from typing import Any

from tfx.orchestration.data_types import RuntimeParameter
from tfx.orchestration.kubeflow.v2.kubeflow_v2_dag_runner import KubeflowV2DagRunner, KubeflowV2DagRunnerConfig

from sangam.pipelines.beam import step_args
from sangam.pipelines.kubeflow.checks import check
from sangam.pipelines.kubeflow.ir import DATA_ROOT, DATE, PIPELINE_ROOT, finish, steps_by_label
from sangam.pipelines.kubeflow.platform import platform_document
from sangam.pipelines.kubeflow.sharing import share
from sangam.pipelines.kubeflow.target import Target
from sangam.pipelines.kubeflow.writing import yaml_text
from sangam.pipelines.pipeline import Placement, build
from sangam.schemas.derived.sharing import groups
from sangam.schemas.spec import Spec
from sangam.schemas.spec.data import DayLogs

_MOUNT = "/gcs/"
"""Mount point of Cloud Storage in every container of Vertex AI."""
_SCHEME = "gs://"


def compile_pipeline(spec: Spec, target: Target) -> str:
    """Returns the compiled text. `data_root` and `pipeline_root` are parameters; for logs by day, so is `date`.

    Raises:
        UserError: the target does not support a setting of the spec.
    """
    if target.flavour == "vertex":
        target = dataclasses.replace(target, pipeline_root=mounted_root(target.pipeline_root))
    check(spec, target)
    ir = _compiled(spec, target)
    finished = finish(ir, spec, target)
    if target.flavour == "vertex":
        return job_text(finished, display_name=spec.name, pipeline_root=target.pipeline_root)
    platform = platform_document(spec, {name: label for label, name in steps_by_label(ir).items()})
    return yaml_text(finished, platform)


def mounted_root(pipeline_root: str) -> str:
    """Returns the mounted path of a root, given as a path or as a URI of Cloud Storage."""
    return pipeline_root.replace(_SCHEME, _MOUNT, 1) if pipeline_root.startswith(_SCHEME) else pipeline_root


def job_text(ir: dict[str, Any], *, display_name: str, pipeline_root: str) -> str:
    """Returns the file that Vertex AI Pipelines takes: a PipelineJob, as JSON.

    Args:
        ir: the pipeline spec.
        display_name: display name of the job.
        pipeline_root: a mounted path.
    """
    job = {
        "displayName": display_name,
        "pipelineSpec": ir,
        "runtimeConfig": {
            "gcsOutputDirectory": f"{pipeline_root.replace(_MOUNT, _SCHEME, 1)}/artifacts",
            "parameterValues": {},
        },
    }
    return json.dumps(job, indent=2, sort_keys=True) + "\n"


def _compiled(spec: Spec, target: Target) -> dict[str, Any]:
    """Returns TFX's pipeline spec, with steps that share a process in one task."""
    placement = Placement(
        date=_parameter(DATE) if isinstance(spec.logs, DayLogs) else "",
        data_root=_parameter(DATA_ROOT),
        pipeline_root=_parameter(PIPELINE_ROOT),
        git_commit=target.git_commit,
        trainer_image=target.trainer_image or target.image,
        has_reporter=True,
    )
    config = KubeflowV2DagRunnerConfig(default_image=target.image, use_pipeline_spec_2_1=True)
    runner = KubeflowV2DagRunner(config)
    ir: dict[str, Any] = runner.run(build(spec, placement, step_args(spec.beam)), write_out=False)["pipelineSpec"]
    return share(ir, groups(spec))


def _parameter(name: str) -> Any:
    return RuntimeParameter(name=name, ptype=str)
