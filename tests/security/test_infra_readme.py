"""The way from an empty cluster to a daily pipeline, as far as it can be walked without one."""

import copy
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import typer
from ruamel.yaml import YAML

from sangam.pipelines.cli import app

DIGEST = "sha256:" + "0" * 64
PREPARE = "infra/kubernetes/prepare.yaml"
_USAGE_ERROR: Any = typer.BadParameter.__bases__[0]  # has no name of its own in what typer exports


def _commands(text: str) -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


@pytest.fixture(scope="module")
def text(repository: Path) -> str:
    return (repository / "infra" / "README.md").read_text()


def sangam_problems(command: str) -> list[str]:
    """Returns what `sangam` would refuse of its own command line: commands, options, arguments."""
    words = shlex.split(command.replace("$IMAGES", "--image a@b --trainer-image c@d").rstrip("&"))
    words = words[[Path(word).name for word in words].index("sangam") + 1 :]
    found: Any = typer.main.get_command(app)
    while hasattr(found, "commands"):
        name = words.pop(0) if words else ""
        if name not in found.commands:
            return [f"no command {name}"]
        found = found.commands[name]
    try:
        found.make_context(found.name, words)
    except _USAGE_ERROR as error:
        return [error.format_message()]
    return []


def test_there_are_fewer_than_fifteen_commands(text: str) -> None:
    assert 10 <= len(_commands(text)) <= 14


def test_sangam_knows_every_command_and_option_of_the_page(text: str) -> None:
    inline = re.findall(r"`(sangam [^`]*--[^`]*)`", text)
    commands = [command for command in [*_commands(text), *inline] if re.search(r"\bsangam (\w)", command)]
    commands = [command for command in commands if "kubectl" not in command]
    assert {re.search(r"sangam (\w+)", command)[1] for command in commands} == {  # type: ignore[index]
        "deploy",
        "backfill",
        "status",
        "compile",
    }
    assert {command: sangam_problems(command) for command in commands} == {command: [] for command in commands}


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("sangam deply x", "no command deply"),
        ("sangam status short_video --hots http://localhost", "No such option"),
        ("sangam deploy short_video", "Missing option"),
        ("sangam backfill a.yaml --from 2024-03-07 --to 2024-03-07 --on mars", "is not one of"),
    ],
)
def test_a_wrong_command_is_found(command: str, found: str) -> None:
    assert found in " ".join(sangam_problems(command))


def test_files_folders_and_targets_are_there(text: str, repository: Path) -> None:
    for command in _commands(text):
        for word in shlex.split(command.rstrip("&")):
            if re.match(r"(infra|pipelines|tests)/", word):
                assert (repository / word).exists(), command
        if (target := re.search(r"\bmake ([a-z-]+)", command)) is not None:
            assert re.search(rf"^{target[1]}:", (repository / "Makefile").read_text(), re.MULTILINE), command
    rows = re.findall(r"^\| `([a-z/.]+)`", text, re.MULTILINE)
    assert rows
    assert all((repository / "infra" / row).exists() for row in rows)
    assert re.findall(r"`(overlays/\w+)`", text) != []


def test_bash_reads_the_commands_and_puts_the_image_in(text: str, repository: Path) -> None:
    commands = _commands(text)
    subprocess.run(["bash", "-n"], input="\n".join(commands), text=True, check=True, timeout=60)
    [prepare] = [command for command in commands if PREPARE in command]
    images = f"--image registry.example/sangam-pipeline@{DIGEST} --trainer-image registry.example/x@{DIGEST}"
    done = subprocess.run(
        ["bash", "-c", prepare.replace("kubectl apply -f -", "cat")],
        cwd=repository,
        env={**os.environ, "IMAGES": images},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    found = {container["image"] for container in _containers(YAML(typ="safe").load(done.stdout))}
    assert found == {f"registry.example/sangam-pipeline@{DIGEST}"}


def test_what_is_installed_is_pinned(text: str) -> None:
    fetched = re.findall(r"(?:https://|github\.com/)\S+", "\n".join(_commands(text)))
    assert len(fetched) == 3
    assert all(re.search(r"ref=\d+\.\d+\.\d+|/v\d+\.\d+\.\d+/", address) for address in fetched)
    assert not re.search(r"\b(latest|master|main)\b", " ".join(fetched))


def test_the_secret_is_given_by_file_and_never_on_the_command_line(text: str) -> None:
    secrets = re.findall(r"kubectl create secret [^`\n]*", text)
    assert secrets
    assert not any("--from-literal" in command for command in secrets)


@pytest.fixture
def prepare(repository: Path) -> dict[str, Any]:
    document: dict[str, Any] = YAML(typ="safe").load(
        (repository / PREPARE).read_text().replace("PIPELINE_IMAGE", f"registry.example/sangam@{DIGEST}")
    )
    return document


def test_the_job_that_prepares_volumes_is_valid_and_starts_what_there_is(prepare: dict[str, Any]) -> None:
    kubernetes_validate.validate(prepare, "1.31", strict=True)
    wrong = copy.deepcopy(prepare)
    wrong["spec"]["template"]["spec"]["containers"][0]["volumeMount"] = []
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.31", strict=True)
    [container] = prepare["spec"]["template"]["spec"]["containers"]
    assert sangam_problems(shlex.join(container["command"])) == []


def _containers(prepare: dict[str, Any]) -> Iterator[dict[str, Any]]:
    spec = prepare["spec"]["template"]["spec"]
    yield from [*spec["initContainers"], *spec["containers"]]


def test_only_the_change_of_owner_is_root_and_it_can_do_no_more(prepare: dict[str, Any]) -> None:
    spec = prepare["spec"]["template"]["spec"]
    assert spec["automountServiceAccountToken"] is False
    for container in _containers(prepare):
        context = container["securityContext"]
        assert (context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"]) == (False, True)
        assert context["capabilities"]["drop"] == ["ALL"]
        assert context["runAsGroup"] == context["runAsUser"], "or the image decides on the group"
    roots = [found for found in _containers(prepare) if found["securityContext"]["runAsUser"] == 0]
    assert [(found["name"], found["command"][0]) for found in roots] == [("owner", "chown")]
    assert roots[0]["securityContext"]["capabilities"]["add"] == ["CHOWN"]
