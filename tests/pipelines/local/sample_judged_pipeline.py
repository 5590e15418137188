"""A pipeline that has judged a made-up model: real TFX, ML Metadata and pusher; the steps before write what is told.

`python -m tests.pipelines.local.sample_judged_pipeline ROOT RUN` runs it once; see `judged_run`.
"""

import json
import sys
from pathlib import Path
from typing import Any

from tensorflow_metadata.proto.v0 import statistics_pb2
from tfx.dsl.component.experimental.annotations import InputArtifact, OutputArtifact, Parameter
from tfx.dsl.component.experimental.decorators import component
from tfx.orchestration import metadata
from tfx.orchestration.pipeline import Pipeline
from tfx.types import standard_artifacts as kinds

from sangam.components.record.store import write_record
from sangam.components.registry import seal
from sangam.components.registry.checkpoint import RankerCheckpoint
from sangam.components.reports.evaluation import GateVerdict, TaskVerdict, Verdict
from sangam.components.reports.serving import Check, ServingVerdict
from sangam.pipelines.local.runner import run_pipeline
from sangam.schemas.contracts.root import Root
from sangam.schemas.loading import load_spec
from sangam.schemas.spec.release import DirectoryPush
from sangam.schemas.spec.serving import Load
from tests.components.record.sample_records import record
from tests.paths import SPECS

SPEC = SPECS / "short_video.yaml"
INGESTION = {
    "date": "2024-03-07",
    "days": {"train": ["2024-03-06"], "eval": ["2024-03-07"]},
    "missing_days": [],
    "splits": {name: {"num_files": 1, "read": 2, "written": 2, "dropped": {}} for name in ("train", "eval")},
}
REASON = "auc 0.6500 is below the bound 0.7000"
SLOW = "p99 90 ms of 30 requests is above serving.max_p99_ms 50"


@component
def example_gen(examples: OutputArtifact[kinds.Examples]) -> None:
    """Writes the report of ingestion."""
    (Path(examples.uri) / "ingestion.json").write_text(json.dumps(INGESTION))


@component
def statistics_gen(statistics: OutputArtifact[kinds.ExampleStatistics]) -> None:
    """Writes statistics without a column."""
    statistics.split_names = '["train"]'
    (Path(statistics.uri) / "Split-train").mkdir()
    found = statistics_pb2.DatasetFeatureStatisticsList(datasets=[statistics_pb2.DatasetFeatureStatistics()])
    (Path(statistics.uri) / "Split-train/FeatureStats.pb").write_bytes(found.SerializeToString())


@component
def trainer(
    content: Parameter[str], model: OutputArtifact[kinds.Model], checkpoint: OutputArtifact[RankerCheckpoint]
) -> None:
    """Exports a file that stands for a model."""
    serving = Path(model.uri) / "Format-Serving"
    serving.mkdir()
    (serving / "saved_model.pb").write_text(content)
    model.set_string_custom_property(seal.SHA256, seal.seal(str(serving)))
    properties = {"days": '["2024-03-06"]', "transform_graph": "graph", "inputs_digest": "i1"}
    for name, value in properties.items():
        checkpoint.set_string_custom_property(name, value)


@component
def evaluator(
    model: InputArtifact[kinds.Model],
    failed: Parameter[str],
    evaluation: OutputArtifact[kinds.ModelEvaluation],
    blessing: OutputArtifact[kinds.ModelBlessing],
) -> None:
    """Refuses the model by a gate of the kind `failed`; by none where that is empty."""
    gate = GateVerdict(kind=failed or "value", metric="auc", bound=0.7, value=0.65, passed=not failed, reason=REASON)
    tasks = {"like": TaskVerdict(metrics={"auc": 0.65}, slices={}, gates=[gate])}
    verdict = Verdict(blessed=not failed, baseline=None, notes=["a note"], tasks=tasks)
    (Path(evaluation.uri) / "verdict.json").write_text(verdict.model_dump_json())
    blessing.set_int_custom_property("blessed", int(not failed))


@component
def infra_validator(
    model: InputArtifact[kinds.Model], fine: Parameter[int], blessing: OutputArtifact[kinds.InfraBlessing]
) -> None:
    """Blesses the model as servable, or not."""
    checks = [Check(name="latency", passed=bool(fine), reason=SLOW)]
    verdict = ServingVerdict(blessed=bool(fine), model_bytes=5, load=Load(), checks=checks)
    (Path(blessing.uri) / "infra_verdict.json").write_text(verdict.model_dump_json())
    blessing.set_int_custom_property("blessed", fine)


def judged_run(
    root: Path,
    run: str = "20240307T000000-aaaaaaaa",
    *,
    failed: str = "value",
    servable: bool = True,
    content: str = "graph",
    with_serving_check: bool = True,
) -> Path:
    """Runs the pipeline and leaves the run's folder with a summary, as `sangam run` does; returns the folder."""
    from sangam.components.steps.pusher.component import Pusher

    spec = load_spec(SPEC).model_copy(update={"push": DirectoryPush(kind="directory", path="serving/tiny")})
    ingested = example_gen().with_id("example_gen")
    counted = statistics_gen().with_id("statistics_gen")
    trained = trainer(content=content).with_id("trainer")
    model = trained.outputs["model"]
    judged = evaluator(model=model, failed=failed).with_id("evaluator")
    checked = infra_validator(model=model, fine=int(servable)).with_id("infra_validator")
    pusher = Pusher(
        spec=spec,
        examples=ingested.outputs["examples"],
        statistics=counted.outputs["statistics"],
        model=model,
        blessing=judged.outputs["blessing"],
        infra_blessing=checked.outputs["blessing"],
        evaluation=judged.outputs["evaluation"],
        checkpoint=trained.outputs["checkpoint"],
        pipeline_root=str(root),
        spec_digest="s1",
        git_commit="g1",
    ).with_id("pusher")
    folder = root / "runs" / run
    folder.mkdir(parents=True)
    config = metadata.sqlite_metadata_connection_config(str(Root(str(root)).metadata))
    steps: list[Any] = [ingested, counted, trained, judged, *([checked, pusher] if with_serving_check else [])]
    pipeline = Pipeline(
        pipeline_name="tiny",
        pipeline_root=str(Root(str(root)).artifacts),
        components=steps,
        enable_cache=True,
        metadata_connection_config=config,
    )
    run_pipeline(pipeline, run, [])
    write_record(record(run=folder.name, path=str(folder), blessed=False))
    return folder


if __name__ == "__main__":
    judged_run(Path(sys.argv[1]), sys.argv[2])
