"""Declares the reporter: it writes the record of a run on Kubeflow and draws its page."""

import json
from typing import ClassVar

from tfx import types
from tfx.dsl.components.base import base_component, executor_spec
from tfx.orchestration import data_types
from tfx.types import standard_artifacts
from tfx.types.component_spec import ChannelParameter, ComponentSpec, ExecutionParameter

from sangam.components.caching.code_digest import code_digest
from sangam.components.page.artifact import HTML, ClassificationMetrics, Metrics
from sangam.components.registry.checkpoint import RankerCheckpoint
from sangam.components.reports.spec_file import document_of
from sangam.components.steps.reporter.executor import Executor
from sangam.components.steps.reporter.metrics import curve_outputs
from sangam.schemas.spec import Spec


class ReporterSpec(ComponentSpec):
    """Inputs, outputs and parameters of the reporter."""

    INPUTS: ClassVar[dict[str, ChannelParameter]] = {
        "examples": ChannelParameter(type=standard_artifacts.Examples),
        "statistics": ChannelParameter(type=standard_artifacts.ExampleStatistics),
        "anomalies": ChannelParameter(type=standard_artifacts.ExampleAnomalies),
        "model": ChannelParameter(type=standard_artifacts.Model),
        "checkpoint": ChannelParameter(type=RankerCheckpoint),
        "training": ChannelParameter(type=standard_artifacts.ModelRun),
        "evaluation": ChannelParameter(type=standard_artifacts.ModelEvaluation),
        "infra_blessing": ChannelParameter(type=standard_artifacts.InfraBlessing),
        "pushed_model": ChannelParameter(type=standard_artifacts.PushedModel),
    }
    OUTPUTS: ClassVar[dict[str, ChannelParameter]] = {
        "page": ChannelParameter(type=HTML),
        "metrics": ChannelParameter(type=Metrics),
    }
    PARAMETERS: ClassVar[dict[str, ExecutionParameter]] = {
        "spec": ExecutionParameter(type=str),
        "spec_digest": ExecutionParameter(type=str),
        "git_commit": ExecutionParameter(type=str),
        "pipeline_root": ExecutionParameter(type=str),
        "run": ExecutionParameter(type=str),
        "code": ExecutionParameter(type=str),
    }


def _spec_with_curves(spec: Spec) -> type[ReporterSpec]:
    """Returns the component's specification with an output for the curve of each task."""
    curves = {name: ChannelParameter(type=ClassificationMetrics) for name in curve_outputs(spec)}
    return type(ReporterSpec.__name__, (ReporterSpec,), {"OUTPUTS": {**ReporterSpec.OUTPUTS, **curves}})


class Reporter(base_component.BaseComponent):
    """Draws the page of a run, and writes it, the record and the spec into the run's folder.

    Outputs: `page`, an HTML file; `metrics`, and `roc_<task>` for each task with classes, whose metadata Kubeflow's
    pages show. An error of the page does not fail the run: the step's log has it.
    """

    SPEC_CLASS = ReporterSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)

    def __init__(
        self,
        *,
        spec: Spec,
        inputs: dict[str, types.BaseChannel],
        pipeline_root: str | data_types.RuntimeParameter,
        spec_digest: str,
        git_commit: str,
    ) -> None:
        """Takes the artifacts that the page shows.

        Args:
            spec: spec of the ranker.
            inputs: channels of `ReporterSpec.INPUTS`.
            pipeline_root: pipeline root with the folders of the runs.
            spec_digest: digest of the spec.
            git_commit: git commit of the code.
        """
        outputs = {name: types.Channel(type=ClassificationMetrics) for name in curve_outputs(spec)}
        super().__init__(
            spec=_spec_with_curves(spec)(
                **inputs,
                spec=json.dumps(document_of(spec)),
                spec_digest=spec_digest,
                git_commit=git_commit,
                pipeline_root=pipeline_root,
                # The entry point sets the id, which is unknown at compile time.
                run="",
                code=code_digest(Executor.__module__),
                page=types.Channel(type=HTML),
                metrics=types.Channel(type=Metrics),
                **outputs,
            )
        )
