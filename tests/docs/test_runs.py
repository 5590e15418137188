"""What docs/runs.md says of looking at runs and of what stays is so."""

import re
import shlex
from pathlib import Path
from typing import get_args

import click
import pytest
import typer
from ruamel.yaml import YAML

from pipelines.cli import app
from pipelines.history.runs import State
from schemas.spec.keep import Keep
from tests.schemas.sample_specs import loaded

COMMANDS: dict[str, click.Command] = typer.main.get_group(app).commands  # type: ignore[assignment]


@pytest.fixture(scope="module")
def doc(repository: Path) -> str:
    return (repository / "docs" / "runs.md").read_text()


def test_its_piece_of_a_spec_is_valid_and_has_every_member(doc: str, tmp_path: Path) -> None:
    [block] = re.findall(r"```yaml\n(.*?)```", doc, re.DOTALL)
    section = YAML(typ="safe").load(block)
    assert loaded(tmp_path, section).keep
    assert set(section["keep"]) == set(Keep.model_fields)


def test_its_commands_are_ones(doc: str) -> None:
    [block] = re.findall(r"```sh\n(.*?)```", doc, re.DOTALL)
    for line in block.splitlines():
        _, command, *arguments = shlex.split(line, comments=True)
        # It refuses what the command does not know.
        assert COMMANDS[command].make_context(command, arguments).info_name == command


def test_every_command_with_json_has_its_document_in_the_table(doc: str) -> None:
    with_json = {
        name for name, command in COMMANDS.items() if any("--json" in parameter.opts for parameter in command.params)
    }
    table = doc.split("### JSON for programs")[1].split("## What stays")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == with_json


def test_every_state_is_in_the_table(doc: str) -> None:
    for state in get_args(State):
        assert f"`{state}`" in doc
