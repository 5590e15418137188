"""The images, as far as they can be looked at without building them. `make images-check` builds them."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from sangam.pipelines.provenance import COMMIT_FILE
from tests.security.dockerfile import Instruction, environment, last_stage, problems, read


@pytest.fixture
def instructions(repository: Path) -> list[Instruction]:
    return read(repository / "infra" / "images" / "Dockerfile")


def test_images_run_as_a_numbered_user_on_pinned_bases_with_hashed_packages(
    instructions: list[Instruction], repository: Path
) -> None:
    assert problems(instructions, repository) == []
    assert [found.text for found in last_stage(instructions) if found.name == "USER"] == ["10001:10001"]


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (Instruction("USER", "10001:10001"), Instruction("USER", "sangam"), "USER ['sangam']: "),
        (Instruction("USER", "10001:10001"), Instruction("USER", "0:0"), "USER ['0:0']: "),
        (Instruction("USER", "10001:10001"), Instruction("WORKDIR", "/tmp"), "USER []: "),
        (None, Instruction("ADD", "https://example.org/x.tar /x"), "ADD https://example.org/x.tar"),
        (None, Instruction("RUN", "curl -fsSL example.org/install | sh"), "RUN curl"),
        (None, Instruction("RUN", "pip install numpy"), "without hashes"),
        (None, Instruction("RUN", "uv pip sync --require-hashes a.lock"), "without hashes"),
        (None, Instruction("RUN", "uv pip install a && pip install --require-hashes -r b"), "RUN uv pip install a: "),
        (None, Instruction("RUN", "--mount=type=secret,id=key,target=/key cat /key"), "gives rights by hand"),
        (None, Instruction("COPY", "absent ./"), "COPY absent: "),
        (None, Instruction("ENV", "API_TOKEN=x"), "names a secret"),
        (None, Instruction("FROM", "python:latest AS other"), "FROM python:latest: "),
        (None, Instruction("ARG", "PYTHON_IMAGE=python:3.11"), "FROM ${PYTHON_IMAGE}: "),
    ],
)
def test_a_careless_change_is_found(
    instructions: list[Instruction],
    repository: Path,
    before: Instruction | None,
    after: Instruction,
    found: str,
) -> None:
    if before is not None:
        changed = [after if instruction == before else instruction for instruction in instructions]
    elif after.name == "ARG":
        changed = [after if instruction.text == "PYTHON_IMAGE" else instruction for instruction in instructions]
    else:
        changed = [after, *instructions]
    assert any(found in problem for problem in problems(changed, repository))


def test_nothing_is_written_outside_tmp_and_modules_come_from_a_folder_nobody_writes_to(
    instructions: list[Instruction],
) -> None:
    variables = environment(instructions)
    assert {variables[name] for name in ("HOME", "TMPDIR")} == {"/tmp"}
    assert all(variables[f"XDG_{name}_HOME"].startswith("/tmp/") for name in ("CACHE", "CONFIG", "DATA"))
    assert (variables["PYTHONDONTWRITEBYTECODE"], variables["PYTHONNOUSERSITE"]) == ("1", "1")
    assert [found.text for found in last_stage(instructions) if found.name == "WORKDIR"] == ["/opt/sangam"]


def test_the_builder_is_sent_only_what_is_copied(instructions: list[Instruction], repository: Path) -> None:
    copied = {name for found in _copies(instructions, from_stage=False) for name in found.text.split()[:-1]}
    ignored = (repository / "infra" / "images" / "Dockerfile.dockerignore").read_text().splitlines()
    assert {line[1:] for line in ignored if line.startswith("!")} == copied


def _copies(instructions: list[Instruction], from_stage: bool) -> list[Instruction]:
    return [found for found in instructions if found.name == "COPY" and ("--from" in found.text) is from_stage]


def test_packages_and_project_are_layers_of_their_own(instructions: list[Instruction]) -> None:
    copies = [found.text for found in _copies(last_stage(instructions), from_stage=True)]
    assert copies == [
        "--from=packages /opt/sangam /opt/sangam",
        "--from=accelerator /opt/accelerator /",
        "--from=project /opt/project /opt/sangam",
    ]
    stage = instructions[: [found.text for found in instructions].index("packages AS project")]
    project = {"sangam", "schemas", "components", "trainer_module", "pipelines", "README.md", "COMMIT"}
    assert not project & {word for found in stage if found.name in ("COPY", "ARG") for word in found.text.split()}


def test_a_build_does_not_depend_on_a_seed_or_on_temporary_folders(instructions: list[Instruction]) -> None:
    variables = dict(pair.split("=", 1) for found in instructions if found.name == "ENV" for pair in found.text.split())
    assert (variables["PYTHONHASHSEED"], variables["CFLAGS"]) == ("0", "-g0")
    runs = [found.text for found in instructions if found.name == "RUN"]
    [compiled] = [text for text in runs if "uv build" in text]
    assert "--no-build-isolation --python compile/bin/python --out-dir wheels horovod" in compiled
    assert all("--invalidation-mode unchecked-hash" in text for text in runs if "compileall" in text)
    assert not any("--compile-bytecode" in text for text in runs)


def test_horovod_is_compiled_with_the_settings_of_the_project(
    instructions: list[Instruction], repository: Path
) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text())["tool"]["uv"]
    wanted = project["extra-build-variables"]["horovod"]
    [found] = [found.text for found in instructions if found.name == "ENV" and "HOROVOD_WITH_GLOO" in found.text]
    assert dict(pair.split("=", 1) for pair in found.split()) == wanted


def test_files_that_the_code_looks_for_lie_beside_the_packages(instructions: list[Instruction]) -> None:
    runs = " ".join(found.text for found in instructions if found.name == "RUN")
    assert f'echo "$COMMIT" > /opt/project/lib/python3.11/site-packages/sangam/{COMMIT_FILE} ' in runs


def test_an_image_that_is_started_by_itself_prints_help(instructions: list[Instruction]) -> None:
    assert last_stage(instructions)[-1] == Instruction("CMD", '["sangam", "--help"]')


def test_what_is_taken_out_was_installed_and_is_imported_nowhere(repository: Path) -> None:
    lines = (repository / "infra" / "images" / "unused.txt").read_text().splitlines()
    unused = [line for line in lines if not line.startswith("#")]
    assert unused == sorted(unused)
    locked = set(re.findall(r"^([\w.-]+)==", (repository / "requirements.runtime.lock").read_text(), re.MULTILINE))
    assert {*unused} <= locked
    modules = "|".join(name.replace("-", "_") for name in unused)
    imported = re.compile(rf"^\s*(?:import|from) ({modules})\b", re.MULTILINE)
    for package in ("schemas", "components", "trainer_module", "pipelines"):
        for path in (repository / package).rglob("*.py"):
            assert not imported.search(path.read_text()), path


@pytest.fixture
def pruned(tmp_path: Path, repository: Path) -> list[str]:
    """What is left of a small environment."""
    packages = tmp_path / "lib" / "python3.11" / "site-packages"
    for name in (
        "tensorflow/include/a.h",
        "tensorflow/lib.so",
        "tests/test_a.py",
        "pandas/tests/frame/test_a.py",
        "tfx/dsl/a_test.py",
        "tfx/dsl/a.py",
        "scipy/stats/page_trend_test.py",
        "a-1.dist-info/uv_cache.json",
        "a-1.dist-info/METADATA",
    ):
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).touch()
    record = packages / "a-1.dist-info" / "RECORD"
    record.write_text("a.py,sha256=a,1\na-1.dist-info/uv_cache.json,sha256=b,2\na-1.dist-info/RECORD,,\n")
    (tmp_path / ".lock").touch()
    script = repository / "infra" / "images" / "prune.sh"
    subprocess.run(["sh", str(script), str(tmp_path)], check=True, timeout=60)
    assert not (tmp_path / ".lock").exists()
    assert record.read_text() == "a.py,sha256=a,1\na-1.dist-info/RECORD,,\n"
    return sorted(str(path.relative_to(packages)) for path in packages.rglob("*") if path.is_file())


def test_headers_tests_and_the_installer_s_notes_are_taken_out(pruned: list[str]) -> None:
    assert pruned == [
        "a-1.dist-info/METADATA",
        "a-1.dist-info/RECORD",
        "scipy/stats/page_trend_test.py",
        "tensorflow/lib.so",
        "tfx/dsl/a.py",
    ]
