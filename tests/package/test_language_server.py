"""A draft in an editor: the language server for YAML, from the npm registry, finds the schema that `init` wrote.

VS Code and Neovim start this server. The versions of its packages, and their digests, are in yaml_language_server/.
"""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sangam.pipelines.drafting.output import write_draft
from sangam.schemas.loading import json_schema
from tests.package.language_server import CURSOR, LanguageServer, language_server

pytestmark = pytest.mark.timeout(300)
_PACKAGE = Path(__file__).parent / "yaml_language_server"


@pytest.fixture(scope="module")
def server_command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("npm")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(_PACKAGE / name, folder)
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.fail("needs Node.js 20 or later with npm (got none); install them, on Debian: apt install nodejs npm")
    subprocess.run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], cwd=folder, check=True)
    return [node, str(folder / "node_modules" / "yaml-language-server" / "bin" / "yaml-language-server"), "--stdio"]


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A draft of `sangam init`, with the schema beside it."""
    logs, spec = tmp_path_factory.mktemp("logs"), tmp_path_factory.mktemp("specs") / "spec.yaml"
    rows = {"user_id": [f"u{n % 7}" for n in range(200)], "price": [n / 7 for n in range(200)]}
    for day in ("2024-03-01", "2024-03-02"):
        (logs / day).mkdir()
        pq.write_table(pa.table(rows | {"clicked": [n % 2 for n in range(200)]}), logs / day / "rows.parquet")
    write_draft(logs, spec, [], "small", force=False)
    return spec


@pytest.fixture(scope="module")
def draft(spec: Path) -> str:
    return spec.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def head(draft: str) -> str:
    return draft.split("\n", 1)[0] + "\n"


@pytest.fixture(scope="module")
def server(server_command: list[str], spec: Path) -> Iterator[LanguageServer]:
    with language_server(server_command, spec.parent) as started:
        yield started


def test_a_draft_has_no_mistakes(server: LanguageServer, draft: str) -> None:
    assert server.problems(draft) == {}


def test_a_wrong_value_an_unknown_key_and_an_unknown_kind_are_marked(server: LanguageServer, draft: str) -> None:
    text = draft
    for right, wrong in {
        "train_days: 1": "train_days: one",
        "{kind: id,": "{kind: id, tabel: u,",
        ": binary": ": binry",
    }.items():
        assert text.count(right) == 1
        text = text.replace(right, wrong)
    found = server.problems(text)
    assert set(found) == {"one", "tabel", "binry"}
    assert "tabel" in found["tabel"]
    assert all(f'"{kind}"' in found["binry"] for kind in ("binary", "regression", "watch_time"))


@pytest.mark.parametrize(
    ("section", "text"),
    [
        ("features", f"features:\n  user:\n    kind: {CURSOR}\n"),
        ("features", f"features:\n  user: {{kind: {CURSOR}}}\n"),
        ("features", f"features:\n  user: {{kind: i{CURSOR}, table: users}}\n"),
        ("tasks", f"tasks:\n  click:\n    kind: {CURSOR}\n"),
        ("model", f"model:\n  kind: {CURSOR}\n"),
        ("model", f"model: {{kind: {CURSOR}, tower_units: [8]}}\n"),
    ],
)
def test_all_kinds_of_a_place_are_offered_with_their_meanings(
    server: LanguageServer, head: str, section: str, text: str
) -> None:
    schema = json_schema()
    node = schema["properties"][section]
    union = next(iter(node["patternProperties"].values())) if "patternProperties" in node else node
    meanings = {
        kind: schema["$defs"][reference.rsplit("/", 1)[1]]["description"]
        for kind, reference in union["discriminator"]["mapping"].items()
    }
    assert server.completions(head + text) == meanings


def test_after_the_kind_only_its_keys_are_offered(server: LanguageServer, head: str) -> None:
    offered = server.completions(f"{head}features:\n  user:\n    kind: id\n    {CURSOR}\n")
    assert set(offered) - {"kind: id"} == {"column", "type", "table", "missing", "missing_row", "at_serving"}
    assert offered["table"] == "Table with a row per id."


def test_before_the_kind_it_is_the_only_key(server: LanguageServer, head: str) -> None:
    offered = server.completions(f"{head}model:\n  {CURSOR}\n")
    assert set(offered) - {"mapping with kind", "model"} == {"kind"}


def test_a_key_shows_its_description_and_default(server: LanguageServer, head: str) -> None:
    shown = server.hover(f"{head}model:\n  kind: mmoe\n  num_{CURSOR}experts: 3\n")
    assert "Number of experts. Default: 4." in shown
