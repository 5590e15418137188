"""Executors of TFX run as its own module runs them, without most of its imports."""

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sangam.components.kfp_entrypoint.executors import parameters, run_executor
from sangam.components.kfp_entrypoint.invocation import INPUTS_SPEC, INVOCATION
from tests.paths import REPOSITORY, SPECS

EXAMPLES = {"instanceSchema": "title: tfx.Examples\ntype: object\nproperties:\n  span:\n    type: integer\n"}
INPUTS: dict[str, Any] = {
    "examples": {"artifacts": [{
        "name": "7", "uri": "/in/examples", "type": EXAMPLES,
        "metadata": {"span": 3, "split_names": '["train"]', "days": 2, "note": "x", "custom:version": "own"},
    }]},
    "model": {"artifacts": [{"name": "11", "uri": "/in/model", "type": {"schemaTitle": "tfx.Model"}}]},
}  # fmt: skip
OUTPUTS = {
    "blessing": {"artifacts": [{"uri": "/out/b", "type": {"instanceSchema": "title: tfx.ModelBlessing\n"}}]},
    "checkpoint": {"artifacts": [{"uri": "/out/c", "type": {"schemaTitle": "sangam.RankerCheckpoint"}}]},
}


def test_a_number_is_an_integer_where_the_component_says_so() -> None:
    values = {"a": 1.0, "b": 2, "c": "text", "d": True, "e": 0.5}
    spec = {"parameters": {"a": {"parameterType": "NUMBER_INTEGER"}, "b": {"parameterType": "NUMBER_DOUBLE"}}}
    found = parameters(values, spec)
    assert found == {"a": 1, "b": 2.0, "c": "text", "d": True, "e": 0.5}
    assert [type(found[name]) for name in "abd"] == [int, float, bool]


@pytest.mark.slow
def test_artifacts_are_read_and_written_as_tfx_does() -> None:
    from google.protobuf import json_format
    from kfp.pipeline_spec import pipeline_spec_pb2
    from tfx.orchestration.kubeflow.v2.container import kubeflow_v2_entrypoint_utils as theirs
    from tfx.orchestration.portable import outputs_utils

    from sangam.components.kfp_entrypoint.artifacts import Artifacts

    message = pipeline_spec_pb2.ExecutorInput()
    json_format.ParseDict({"inputs": {"artifacts": INPUTS}, "outputs": {"artifacts": OUTPUTS}}, message)
    names: dict[int, str] = {}
    expected_inputs = theirs.parse_raw_artifact_dict(message.inputs.artifacts, names)
    expected_outputs = theirs.parse_raw_artifact_dict(message.outputs.artifacts, names)
    ours = Artifacts()
    inputs, outputs = ours.read(copy.deepcopy(INPUTS)), ours.read(copy.deepcopy(OUTPUTS))
    for key, [expected] in (expected_inputs | expected_outputs).items():
        [found] = (inputs | outputs)[key]
        assert type(found) is type(expected)
        assert _without_id(found) == _without_id(expected)
    for made, given in ((expected_outputs, expected_inputs), (outputs, inputs)):
        made["blessing"][0].set_int_custom_property("current_model_id", given["model"][0].id)
        made["blessing"][0].set_int_custom_property("blessed", 1)
        made["checkpoint"][0].set_string_custom_property("sha256", "f00")
    outputs_utils.tag_output_artifacts_with_version(expected_outputs)
    theirs.refactor_model_blessing(expected_outputs["blessing"][0], names)
    translated = theirs.translate_executor_output(expected_outputs, names)
    expected = {key: json_format.MessageToDict(value) for key, value in translated.items()}
    written = ours.written(outputs)
    assert written == expected
    assert written["blessing"]["artifacts"][0]["metadata"]["current_model_id"] == "11"


def _without_id(artifact: Any) -> Any:
    message = copy.deepcopy(artifact.mlmd_artifact)
    message.ClearField("id")
    return message


@pytest.mark.long
@pytest.mark.slow
def test_a_small_step_loads_neither_beams_clients_nor_tfma_nor_kfp(tmp_path: Path) -> None:
    from sangam.schemas.loading import load_spec

    schema = {"uri": str(tmp_path / "schema"), "type": {"instanceSchema": "title: tfx.Schema\n"}}
    asked = {
        "inputs": {"parameterValues": {"inputs": load_spec(SPECS / "short_video.yaml").inputs().model_dump_json()}},
        "outputs": {"artifacts": {"schema": {"artifacts": [schema]}}, "outputFile": str(tmp_path / "out" / "o.json")},
    }
    words = ["--executor_class_path", "sangam.components.steps.schema_gen.executor.Executor"]
    words += [INVOCATION, json.dumps(asked), INPUTS_SPEC, "{}", "--runner=FnApiRunner"]
    script = (
        "import sys; from sangam.components.kfp_entrypoint.executors import main; main(sys.argv[1:]); "
        "print(*(name for name in ('kfp', 'tensorflow_model_analysis', 'google.cloud.bigquery', 'keras_tuner')"
        " if sys.modules.get(name)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *words], cwd=REPOSITORY, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.split() == []
    written = json.loads((tmp_path / "out" / "o.json").read_text())
    assert written["artifacts"]["schema"]["artifacts"][0]["uri"] == schema["uri"]
    assert (tmp_path / "schema" / "schema.pbtxt").is_file()


class SaysWhereItWrites:
    """An executor."""

    def __init__(self, context: Any) -> None:
        del context

    def Do(self, inputs: Any, outputs: Any, properties: dict[str, Any]) -> None:
        del inputs
        outputs["schema"][0].set_string_custom_property(
            "said", f"at {outputs['schema'][0].uri} {properties['data_root']}"
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("runner", "said"),
    [
        ("FnApiRunner", "at /gcs/bucket/schema /gcs/bucket/logs"),
        ("DataflowRunner", "at gs://bucket/schema gs://bucket/logs"),
    ],
)
def test_a_step_on_dataflow_gets_buckets_by_their_uris_and_the_backend_keeps_its_paths(runner: str, said: str) -> None:
    schema = {"uri": "/gcs/bucket/schema", "type": {"instanceSchema": "title: tfx.Schema\n"}}
    asked = {
        "inputs": {"parameterValues": {"data_root": "/gcs/bucket/logs"}},
        "outputs": {"artifacts": {"schema": {"artifacts": [schema]}}, "outputFile": "/gcs/bucket/o.json"},
    }
    path = f"{SaysWhereItWrites.__module__}.{SaysWhereItWrites.__name__}"
    [written] = run_executor(path, asked, {}, [f"--runner={runner}"])["artifacts"]["schema"]["artifacts"]
    assert written["uri"] == schema["uri"]
    assert written["metadata"]["said"] == said
