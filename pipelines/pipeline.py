"""The whole pipeline of a ranker, for local runs and for Kubeflow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfx.dsl.components.base.base_beam_component import BaseBeamComponent
from tfx.orchestration import metadata, pipeline

from sangam.components.steps.evaluator.component import Evaluator
from sangam.components.steps.example_gen.component import ExampleGen
from sangam.components.steps.example_validator import drift
from sangam.components.steps.example_validator.component import ExampleValidator
from sangam.components.steps.infra_validator.component import InfraValidator
from sangam.components.steps.pusher.component import Pusher
from sangam.components.steps.reporter.component import Reporter
from sangam.components.steps.schema_gen.component import SchemaGen
from sangam.components.steps.statistics_gen.component import StatisticsGen
from sangam.components.steps.trainer.component import Trainer
from sangam.components.steps.transform.code import PREPROCESSING_FN
from sangam.components.steps.transform.component import Transform
from sangam.schemas.contracts.root import Root
from sangam.schemas.spec import Spec, digest
from sangam.schemas.spec.beam import BeamStepName
from sangam.schemas.spec.cluster import Launch, LocalLauncher

RuntimeString = Any
"""A str, or TFX's RuntimeParameter of type str."""
BeamArgs = Mapping[BeamStepName, Sequence[str]]
"""Beam arguments of each step that uses Beam."""


@dataclass(frozen=True)
class Placement:
    """The location and date of a run, which are not part of the spec or its digest.

    Attributes:
        date: YYYY-MM-DD; empty: the day (UTC) before the run, or no date for logs without dates.
        data_root: folder that the spec's file patterns are relative to.
        pipeline_root: folder of all files that outlive a run: artifacts, blessings, pushed models.
        git_commit: git commit of the code, for the manifest of the pushed model; empty if unknown.
        trainer_image: image of a training job's pods; empty for a local run.
        has_reporter: whether the last step draws the run's page. For a local run, its process draws the page, with the
            time of each step and the reason of a failure.
    """

    date: RuntimeString
    data_root: RuntimeString
    pipeline_root: RuntimeString
    git_commit: str = ""
    trainer_image: str = ""
    has_reporter: bool = False


@dataclass(frozen=True)
class _Data:
    """The steps up to Transform, and the outputs that later steps use."""

    steps: list[Any]
    examples: Any
    statistics: Any
    anomalies: Any
    transform: Any


def build(spec: Spec, placement: Placement, beam_args: BeamArgs) -> pipeline.Pipeline:
    """Returns the pipeline of a spec. Each step gets only the part of the spec that it depends on."""
    data = _data(spec, placement, is_ahead=spec.transforms_ahead)
    return _pipeline(spec, placement, beam_args, [*data.steps, *_model(spec, placement, data)])


def build_examples(spec: Spec, placement: Placement, beam_args: BeamArgs) -> pipeline.Pipeline:
    """Returns the steps up to the transformed examples, which share their cache with the whole pipeline.

    They are always transformed ahead, because a search reads them many times.
    """
    return _pipeline(spec, placement, beam_args, _data(spec, placement, is_ahead=True).steps)


def _pipeline(spec: Spec, placement: Placement, beam_args: BeamArgs, steps: list[Any]) -> pipeline.Pipeline:
    for step in steps:
        if isinstance(step, BaseBeamComponent):
            # Each step has its complete arguments: TFX would prepend those of the pipeline.
            step.with_beam_pipeline_args(beam_args[step.id])
    return pipeline.Pipeline(
        # KFP allows no underscore in a pipeline's name.
        pipeline_name=spec.name.replace("_", "-"),
        components=steps,
        enable_cache=True,
        **_storage(placement.pipeline_root),
    )


def _data(spec: Spec, placement: Placement, *, is_ahead: bool) -> _Data:
    """Returns the steps from the logs to examples that have passed validation and their transformation.

    Args:
        spec: spec of the ranker.
        placement: placement of the pipeline.
        is_ahead: whether Transform also writes the transformed examples.
    """
    example_gen = ExampleGen(
        spec=spec, date=placement.date, data_root=placement.data_root, pipeline_root=placement.pipeline_root
    ).with_id("example_gen")
    examples = example_gen.outputs["examples"]
    schema_gen = SchemaGen(inputs=spec).with_id("schema_gen")
    schema = schema_gen.outputs["schema"]
    statistics_gen = StatisticsGen(examples=examples, schema=schema, options=drift.STATISTICS).with_id("statistics_gen")
    statistics = statistics_gen.outputs["statistics"]
    example_validator = ExampleValidator(spec=spec, statistics=statistics, schema=schema).with_id("example_validator")
    # Transform's default splits are right: analyze `train` only, transform every split.
    transform = Transform(
        inputs=spec,
        preprocessing_fn=PREPROCESSING_FN,
        examples=examples,
        schema=schema,
        materialize=is_ahead,
    ).with_id("transform")
    # Transform reads no output of the validator, but waits for it: no model may be trained on invalid data.
    transform.add_upstream_node(example_validator)
    steps = [example_gen, schema_gen, statistics_gen, example_validator, transform]
    return _Data(steps, examples, statistics, example_validator.outputs["anomalies"], transform)


def _model(spec: Spec, placement: Placement, data: _Data) -> list[Any]:
    """Returns the steps from the transformed examples to a model that is blessed and pushed."""
    root = placement.pipeline_root
    transformed = data.transform.outputs
    trainer = Trainer(
        spec=spec,
        examples=data.examples,
        transform_graph=transformed["transform_graph"],
        transformed_examples=transformed.get("transformed_examples"),
        pipeline_root=root,
        launch=_launch(spec, placement),
    ).with_id("trainer")
    model, training = trainer.outputs["model"], trainer.outputs["training"]
    evaluator = Evaluator(
        spec=spec,
        examples=data.examples,
        model=model,
        training=training,
        pipeline_root=root,
    ).with_id("evaluator")
    # Parallel to the evaluator, so that a rejected model is reported with all of its problems.
    infra_validator = InfraValidator(
        spec=spec,
        model=model,
        training=training,
        pipeline_root=root,
        date=placement.date,
        data_root=placement.data_root,
    ).with_id("infra_validator")
    pusher = Pusher(
        spec=spec,
        examples=data.examples,
        statistics=data.statistics,
        model=model,
        blessing=evaluator.outputs["blessing"],
        infra_blessing=infra_validator.outputs["blessing"],
        evaluation=evaluator.outputs["evaluation"],
        checkpoint=trainer.outputs["checkpoint"],
        pipeline_root=root,
        spec_digest=digest(spec),
        git_commit=placement.git_commit,
    ).with_id("pusher")
    steps = [trainer, evaluator, infra_validator, pusher]
    if placement.has_reporter:
        steps.append(_reporter(spec, placement, data, *steps))
    return steps


def _reporter(
    spec: Spec, placement: Placement, data: _Data, trainer: Any, evaluator: Any, infra_validator: Any, pusher: Any
) -> Any:
    return Reporter(
        spec=spec,
        inputs={
            "examples": data.examples,
            "statistics": data.statistics,
            "anomalies": data.anomalies,
            "model": trainer.outputs["model"],
            "checkpoint": trainer.outputs["checkpoint"],
            "training": trainer.outputs["training"],
            "evaluation": evaluator.outputs["evaluation"],
            "infra_blessing": infra_validator.outputs["blessing"],
            "pushed_model": pusher.outputs["pushed_model"],
        },
        pipeline_root=placement.pipeline_root,
        spec_digest=digest(spec),
        git_commit=placement.git_commit,
    ).with_id("reporter")


def _launch(spec: Spec, placement: Placement) -> str:
    """Returns the training job that the trainer step starts, as JSON; "" for local processes."""
    launcher = spec.cluster.launcher
    if isinstance(launcher, LocalLauncher) or not placement.trainer_image:
        return ""
    image = spec.cluster.step("trainer").image or placement.trainer_image
    return Launch(
        launcher=launcher, image=image, volumes=spec.cluster.volumes, queue=spec.cluster.queue
    ).model_dump_json()


def _storage(pipeline_root: RuntimeString) -> dict[str, Any]:
    """Returns the storage of artifacts and metadata: below a local root; on Kubeflow, the backend sets it."""
    if not isinstance(pipeline_root, str):
        return {"pipeline_root": "unused"}
    root = Root(pipeline_root)
    connection = metadata.sqlite_metadata_connection_config(str(root.metadata))
    return {"pipeline_root": str(root.artifacts), "metadata_connection_config": connection}
