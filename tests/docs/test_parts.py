"""docs/parts.md leads from logs to a pushed model with a loss of one's own, as it is written."""

import contextlib
import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import sangam
import sangam.parts
from sangam.schemas.parts.kinds import Part
from tests.e2e.user_run import environment
from tests.e2e.user_run import sangam as run_sangam
from tests.e2e.warm_commands import FOLDER, start_module
from tests.paths import REPOSITORY

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.long]

PAGE = (REPOSITORY / "docs" / "parts.md").read_text()
BEFORE = (REPOSITORY / "docs" / "python.md").read_text().partition("## A spec")[0]


def _blocks(kind: str, text: str = PAGE) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Has the logs of docs/python.md, a drafted spec with the page's loss, and the module with it."""
    made = tmp_path_factory.mktemp("parts")
    with contextlib.chdir(made):
        exec(_blocks("python", BEFORE)[0], {})
        module, test = _blocks("python")
        (made / "my_team").mkdir()
        (made / "my_team" / "ranking.py").write_text(module)
        (made / "test_margin.py").write_text(test)
        spec = sangam.Spec.draft("logs", "clicks", labels=["clicked"])
        few = {"training.epochs": 2, "cluster": {"ranks": 1, "data_workers": 0}}
        document = spec.with_values(few).to_dict()
        [written] = _blocks("yaml")
        added = YAML(typ="safe", pure=True).load(written)
        sangam.Spec.from_dict({**document, **added}).save("clicks.yaml")
    return made


def test_its_commands_end_with_a_pushed_model(folder: Path) -> None:
    [commands] = _blocks("sh")
    for line in commands.splitlines():
        command, _, target = line.partition("#")[0].partition(">")
        program, *arguments = command.split()
        assert program == "sangam"
        done = run_sangam(*arguments, variables={FOLDER: str(folder)})
        assert done.returncode == 0, done.stdout + done.stderr
        if target:
            (folder / target.strip()).write_text(done.stdout)
    assert "pushed" in done.stdout
    schema = (folder / ".sangam.schema.json").read_text()
    assert "Width s of the bend." in schema


def test_its_test_passes(folder: Path) -> None:
    words = ["pytest", "-q", "-p", "no:cacheprovider", "test_margin.py"]
    log = folder.parent / "margin.log"
    assert start_module(words, {**environment(), FOLDER: str(folder)}, log).wait(120) == 0, log.read_text()


@pytest.mark.parametrize("line", re.findall(r"^\| `(\w+)`(?:, `(\w+)`)? \| [^|]* \| `(\w+)\(", PAGE, re.MULTILINE))
def test_the_table_of_roles_names_the_methods(line: tuple[str, str, str]) -> None:
    *roles, method = line
    for role in filter(None, roles):
        part: type[Part] = getattr(sangam.parts, role)
        assert part.compute == method
