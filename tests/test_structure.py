"""The hard limits of this repository: sizes, names, and what its files must not hold."""

import ast
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.paths import REPOSITORY

PACKAGES = ("schemas", "components", "trainer_module", "pipelines")
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
FORBIDDEN_NAMES = {"utils", "util", "common", "helpers", "helper", "misc"}
# Written in two parts, so that this file does not hold what it looks for. The mount of a pipeline root is no machine's.
MACHINE_PATH = re.compile(r"(?<!/sangam)/(?:ho" r"me|wo" r"rk|Us" r"ers|ro" r"ot)/[\w.-]+")
REGISTRY_ADDRESS = re.compile(r"https?://[^\s\"']*(?:py" r"pi|pythonho" r"sted|artifac" r"tory|ne" r"xus)|/simp" r"le/")


def _tracked(*suffixes: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        check=True,
        text=True,
    )
    paths = [REPOSITORY / name for name in listed.stdout.split("\0") if name]
    return [path for path in paths if path.is_file() and (not suffixes or path.suffix in suffixes)]


def _modules(*folders: str) -> list[Path]:
    return [path for path in _tracked(".py") if path.relative_to(REPOSITORY).parts[0] in folders]


def _place(path: Path, line: int | None = None) -> str:
    return f"{path.relative_to(REPOSITORY)}{f':{line}' if line else ''}"


def test_modules_have_one_name() -> None:
    """`schemas.spec` would be another module than `sangam.schemas.spec`."""
    other = re.compile(rf"^ *(?:import|from) (?:{'|'.join(PACKAGES)})\b", re.MULTILINE)
    assert not [
        _place(path) for path in _modules(*PACKAGES, "tests", "bench", "sangam") if other.search(path.read_text())
    ]


# Who would be changed if the stack went on without them: ADR 0050.
ENDING = {
    "tensorflow_recommenders_addons": {
        "components/server/model.py",
        "trainer_module/embedding/row_store.py",
        "trainer_module/serving/tfra_table.py",
    },
    "horovod": {"trainer_module/collectives/over_horovod.py"},
}


@pytest.mark.parametrize("library", ENDING)
def test_a_library_that_binds_the_stack_is_imported_in_few_places(library: str) -> None:
    imported = re.compile(rf"^ *(?:import|from) {library}\b", re.MULTILINE)
    assert {_place(path) for path in _modules(*PACKAGES) if imported.search(path.read_text())} == ENDING[library]


def test_files_are_short() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in _modules(*PACKAGES, "tests", "bench")}
    assert not [f"{_place(path)}: {length} lines" for path, length in lengths.items() if length > MAX_FILE_LINES]


def test_functions_are_short() -> None:
    long = []
    for path in _modules(*PACKAGES):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
                length = node.end_lineno - node.lineno + 1
                if length > MAX_FUNCTION_LINES:
                    long.append(f"{_place(path, node.lineno)}: {node.name} has {length} lines")
    assert not long


def test_no_module_is_a_place_for_everything() -> None:
    assert not [
        _place(path) for path in _modules(*PACKAGES, "tests") if FORBIDDEN_NAMES & set(path.with_suffix("").parts)
    ]


def test_only_the_tests_of_bench_import_it() -> None:
    importing = re.compile(r"^\s*(from|import) bench\b", re.MULTILINE)
    others = [path for path in _modules(*PACKAGES, "tests") if "bench" not in path.relative_to(REPOSITORY).parts]
    assert not [_place(path) for path in others if importing.search(path.read_text())]


def test_no_channel_goes_through_a_proxy_of_the_environment() -> None:
    calls = [
        (path, node)
        for path in _modules(*PACKAGES, "bench")
        if "secure_channel" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("secure_channel")
    ]
    assert len(calls) >= 5
    assert not [
        _place(path, node.lineno)
        for path, node in calls
        if "options" not in {each.arg for each in node.keywords} or "NO_HTTP_PROXY" not in path.read_text()
    ]


def test_every_package_says_what_it_is_for() -> None:
    assert not [
        name for name in PACKAGES if not ast.get_docstring(ast.parse((REPOSITORY / name / "__init__.py").read_text()))
    ]


@pytest.mark.parametrize("pattern", [MACHINE_PATH, REGISTRY_ADDRESS], ids=["machine paths", "registry addresses"])
def test_no_file_holds(pattern: re.Pattern[str]) -> None:
    found = []
    for path in _tracked():
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        found += [_place(path, number) for number, line in enumerate(lines, 1) if pattern.search(line)]
    assert not found


def test_lock_file_has_a_hash_for_each_package_and_no_address() -> None:
    text = (REPOSITORY / "requirements.lock").read_text()
    assert "://" not in text
    entries = [entry for entry in text.replace("\\\n", " ").splitlines() if entry.strip() and not entry.startswith("#")]
    assert len(entries) > 100
    assert not [entry for entry in entries if "==" not in entry or "--hash=sha256:" not in entry]


def test_every_dependency_has_its_reason(dependencies: list[str]) -> None:
    reasons = (REPOSITORY / "infra" / "adr" / "0003-dependencies.md").read_text()
    assert not [name for name in dependencies if f"`{name}`" not in reasons]


def test_every_dependency_is_locked(dependencies: list[str]) -> None:
    locked = (REPOSITORY / "requirements.lock").read_text()
    assert "uv" in dependencies  # It installs the locks.
    assert not [
        name
        for name in dependencies
        if name != "uv" and not re.search(rf"(?im)^{re.escape(name.replace('.', '-'))}(\[\w+\])?==", locked)
    ]


@pytest.fixture(scope="module")
def dependencies() -> list[str]:
    project = _read_toml(REPOSITORY / "pyproject.toml")
    groups = project["dependency-groups"]
    declared = project["project"]["dependencies"] + groups["runtime"] + groups["dev"]
    return [re.split(r"[\[<>=!~ ]", requirement, maxsplit=1)[0] for requirement in declared]


def _read_toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text())


_SPECS = {"TensorSpec", "SparseTensorSpec", "RaggedTensorSpec", "function"}


def test_no_tensor_is_made_at_import() -> None:
    """It would start TensorFlow's threads, and processes are forked from one that has imported these modules."""
    found = []
    for path in sorted((REPOSITORY / "trainer_module").rglob("*.py")):
        waiting: list[ast.AST] = list(ast.parse(path.read_text()).body)
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                waiting += node.decorator_list if not isinstance(node, ast.Lambda) else []
                continue
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if called.startswith("tf.") and called.removeprefix("tf.") not in _SPECS:
                found.append(f"{path.relative_to(REPOSITORY)}: {called}")
            waiting += ast.iter_child_nodes(node)
    assert found == []
