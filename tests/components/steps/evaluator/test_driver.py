"""A second run of the same pipeline takes the first verdict from the cache, though the registry has grown meanwhile."""

from pathlib import Path
from typing import Any

import pytest
from tfx.utils import path_utils

from sangam.components.registry import seal
from sangam.components.registry.blessed import record
from sangam.schemas.contracts.root import Root
from sangam.schemas.loading import load_spec
from tests.beam_args import BEAM_ARGS
from tests.components.examples import sample_files
from tests.components.registry.sample_blessings import blessing
from tests.paths import SPECS

pytestmark = pytest.mark.slow


def build(root: Path, model: Path) -> Any:
    from tfx import v1 as tfx
    from tfx.types import standard_artifacts
    from tfx.utils import path_utils

    from sangam.components.steps.evaluator.component import Evaluator
    from sangam.schemas.spec.release import Confidence, Evaluation
    from tests.components.steps.evaluator import sample_evaluation as world

    spec = load_spec(SPECS / "short_video.yaml").model_copy(
        update={
            "features": world.INPUTS.features,
            "tasks": world.INPUTS.tasks,
            "gates": world.GATES,
            "evaluation": Evaluation(confidence=Confidence(replicates=0)),
        }
    )
    examples = tfx.dsl.Importer(
        source_uri=str(root / "examples"),
        artifact_type=standard_artifacts.Examples,
        properties={"split_names": '["eval"]'},
        custom_properties={"payload_format": "FORMAT_TF_EXAMPLE"},
    ).with_id("examples")
    trained = tfx.dsl.Importer(
        source_uri=str(model),
        artifact_type=standard_artifacts.Model,
        custom_properties={seal.SHA256: seal.seal(path_utils.serving_model_path(str(model)))},
    ).with_id("trained")
    training = tfx.dsl.Importer(source_uri=f"{model}-training", artifact_type=standard_artifacts.ModelRun)
    training = training.with_id("training")
    evaluator = Evaluator(
        spec=spec,
        examples=examples.outputs["result"],
        model=trained.outputs["result"],
        training=training.outputs["result"],
        pipeline_root=str(root / "pipeline"),
    )
    return tfx.dsl.Pipeline(
        pipeline_name="tiny",
        pipeline_root=str(root / "pipeline"),
        components=[examples, trained, training, evaluator],
        enable_cache=True,
        metadata_connection_config=tfx.orchestration.metadata.sqlite_metadata_connection_config(str(root / "mlmd")),
        beam_pipeline_args=list(BEAM_ARGS),
    )


def register(root: Path, model: Path) -> None:
    """Does what the pusher does after both blessings; a second time nothing."""
    entry = blessing(str(model), model_sha256=seal.seal(path_utils.serving_model_path(str(model))))
    record(Root(str(root / "pipeline")).blessed("short_video"), entry)


def evaluations(root: Path) -> list[str]:
    """Returns the state of every execution of the evaluator, oldest first."""
    from ml_metadata import MetadataStore
    from ml_metadata.proto import metadata_store_pb2 as mlmd
    from tfx import v1 as tfx

    store = MetadataStore(tfx.orchestration.metadata.sqlite_metadata_connection_config(str(root / "mlmd")))
    (kind,) = [kind.name for kind in store.get_execution_types() if kind.name.endswith("Evaluator")]
    runs = sorted(store.get_executions_by_type(kind), key=lambda run: run.id)
    return [str(mlmd.Execution.State.Name(run.last_known_state)) for run in runs]


def test_a_rerun_is_cached_and_a_new_model_meets_the_blessed_one(tmp_path: Path) -> None:
    from tfx import v1 as tfx

    from tests.components.steps.evaluator import sample_evaluation as world

    sample_files.write_eval_split(tmp_path / "examples", world.rows())
    for name, noise in (("first", 0.1), ("second", 0.0)):
        world.export_model(tmp_path / name, noise=noise)
    for model in ("first", "first", "second", "second", "first"):
        tfx.orchestration.LocalDagRunner().run(build(tmp_path, tmp_path / model))
        register(tmp_path, tmp_path / model)
    assert evaluations(tmp_path) == ["COMPLETE", "CACHED", "COMPLETE", "CACHED", "CACHED"]
    found = tmp_path.glob("pipeline/Evaluator/evaluation/*/verdict.json")
    verdicts = sorted(found, key=lambda verdict: int(verdict.parent.name))
    assert ["was not checked" in verdict.read_text() for verdict in verdicts] == [True, False]
