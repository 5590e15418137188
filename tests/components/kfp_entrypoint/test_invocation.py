"""What the backend asks, as TFX's executors can take it."""

import copy
import json
from typing import Any

import pytest

from sangam.components.kfp_entrypoint.invocation import Command, globalized, localized, parse_command
from sangam.components.kfp_entrypoint.uris import UriMapping
from sangam.schemas.errors import UserError
from tests.errors import place_and_value

URI_MAPPING = UriMapping("/r/artifacts")
DECLARED = {"artifacts": {"examples": {"artifactType": {"instanceSchema": "title: tfx.Examples"}}}}
ASKED: dict[str, Any] = {
    "inputs": {
        "parameterValues": {"date": "", "sangam_root": "/root", "sangam_created": "x", "name": "n"},
        "artifacts": {
            "examples": {
                "artifacts": [
                    {"name": "7", "uri": "minio://b/e", "type": {"instanceSchema": ""}, "metadata": {"days": "{}"}}
                ]
            }
        },
    },
    "outputs": {
        "artifacts": {
            "model": {"artifacts": [{"uri": "minio://b/m", "type": {"instanceSchema": "title: tfx.Model"}}]},
            "executor-logs": {"artifacts": [{"uri": "minio://b/l", "type": {"schemaTitle": "system.Artifact"}}]},
        },
        "outputFile": "/tmp/kfp_outputs/output_metadata.json",
    },
}


def test_paths_types_and_parameters_are_as_tfx_takes_them() -> None:
    before = copy.deepcopy(ASKED)
    local = localized(ASKED, DECLARED, URI_MAPPING, {"date": "2024-03-07"})
    assert before == ASKED
    (examples,) = local["inputs"]["artifacts"]["examples"]["artifacts"]
    assert examples == {
        "name": "7",
        "uri": "/r/artifacts/minio/b/e",
        "type": {"instanceSchema": "title: tfx.Examples"},
        "metadata": {"days": "{}"},
    }
    assert local["inputs"]["parameterValues"] == {"date": "2024-03-07", "name": "n"}
    assert list(local["outputs"]["artifacts"]) == ["model"]
    assert local["outputs"]["artifacts"]["model"]["artifacts"][0]["uri"] == "/r/artifacts/minio/b/m"


def test_what_is_handed_back_has_the_backends_addresses() -> None:
    written = {"artifacts": {"model": {"artifacts": [{"uri": "/r/artifacts/minio/b/m", "metadata": {"step": 3.0}}]}}}
    assert globalized(written, URI_MAPPING) == {
        "artifacts": {"model": {"artifacts": [{"uri": "minio://b/m", "metadata": {"step": 3.0}}]}}
    }


def test_an_artifact_that_was_moved_is_refused() -> None:
    with pytest.raises(UserError, match=place_and_value("artifact", "/r/artifacts (got '/etc/m')")):
        globalized({"artifacts": {"model": {"artifacts": [{"uri": "/etc/m"}]}}}, URI_MAPPING)


def test_the_executor_input_is_replaced_in_tfxs_command() -> None:
    words = ["python", "-m", "tfx.run", "--json_serialized_invocation_args", json.dumps(ASKED), "--runner=FnApiRunner"]
    command = parse_command(words)
    assert command.executor_input() == ASKED
    changed = command.with_executor_input({"inputs": {}})
    assert changed == Command("tfx.run", (words[3], '{"inputs": {}}', words[5]))


@pytest.mark.parametrize("words", [[], ["bash", "-c", "x"], ["python", "script.py"]])
def test_another_command_is_refused(words: list[str]) -> None:
    with pytest.raises(UserError, match=place_and_value("command", "`python -m MODULE")):
        parse_command(words)


@pytest.mark.parametrize("text", ["{{$}}", "", "[]"])
def test_a_placeholder_that_nobody_filled_in_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="is not an ExecutorInput"):
        Command("m", ("--json_serialized_invocation_args", text)).executor_input()
