"""What docs/kubeflow.md shows can be given, and what it promises of codes and permissions is so."""

import re
from pathlib import Path

import pytest
import typer

from sangam.pipelines.cli import app
from sangam.pipelines.deploy.errors import permission
from sangam.pipelines.deploy.state import EXIT_CODES
from tests.pipelines.deploy.sample_server import OTHER_IMAGE, World


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    return (repository / "docs" / "kubeflow.md").read_text()


def _options() -> dict[str, set[str]]:
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    return {
        name: {option for parameter in command.params for option in parameter.opts}
        for name, command in group.commands.items()
    }


def test_commands_and_their_options_exist(page: str) -> None:
    known = _options()
    shown = [block.replace("\\\n", " ") for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL)]
    shown += re.findall(r"`(sangam [^`]*)`", page)
    commands = [command for block in shown for command in re.findall(r"sangam ([\w-]+)([^\n]*)", block)]
    assert len(commands) > 10
    for command, rest in commands:
        assert command in known
        assert set(re.findall(r"--[a-z-]+", rest.split("#")[0])) <= known[command], (command, rest)


def test_exit_codes_are_those_of_status(page: str) -> None:
    table = page.split("| exit code |")[1].split("\n\n")[0]
    codes = {int(code) for code in re.findall(r"^\| (\d) \|", table, re.MULTILINE)}
    assert codes == {*EXIT_CODES.values(), 2}


def test_permissions_are_those_that_are_used(page: str, world: World) -> None:
    table = page.split("| resource | verbs |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)`[^|]*\| ([^|]*) \|", table, re.MULTILINE)
    declared = {(resource, verb) for resource, verbs in rows for verb in re.findall(r"`(\w+)`", verbs)}
    world.deploy()
    world.deploy(image=OTHER_IMAGE)
    world.backfill("2024-03-01")
    used = set()
    for request in world.server.requests:
        verb, resource = permission(*request.split(" ", 1)).split()
        used.add((resource, verb))
    assert used <= declared
    assert declared - used == {("runs", "terminate")}
