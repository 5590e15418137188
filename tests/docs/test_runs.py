"""What docs/runs.md says of looking at runs and of what stays is so."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import click
import pytest
import typer
from ruamel.yaml import YAML

from sangam.components.record.store import State
from sangam.pipelines.cli import app
from sangam.schemas.spec.keep import Keep
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


def test_every_command_has_json_and_its_document_in_the_table(doc: str) -> None:
    commands = dict(_leaves(COMMANDS))
    without = {name for name, each in commands.items() if not any("--json" in option.opts for option in each.params)}
    assert without == {"schema"}  # It prints nothing else.
    table = doc.split("### JSON for programs")[1].split("## What stays")[0]
    named = re.findall(r"^\| (`[\w -]+`(?:, `[\w -]+`)*) \|", table, re.MULTILINE)
    assert {name.strip("`") for names in named for name in names.split(", ")} == set(commands) - without


def _leaves(commands: dict[str, click.Command], group: str = "") -> Iterator[tuple[str, click.Command]]:
    for name, command in commands.items():
        # Typer brings a click of its own, whose groups are not click's.
        if members := getattr(command, "commands", None):
            yield from _leaves(members, f"{name} ")
        else:
            yield group + name, command


def test_every_state_is_in_the_table(doc: str) -> None:
    for state in get_args(State):
        assert f"`{state}`" in doc
