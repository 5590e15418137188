"""The images, as far as they can be looked at without building them, and the script that builds them."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from components.caching.code_digest import LOCK
from tests.errors import tells
from tests.security.dockerfile import Instruction, environment, last_stage, problems, read

IMAGES = ("pipeline", "trainer")
DIGEST = "sha256:" + "a" * 64


@pytest.fixture(params=IMAGES)
def instructions(request: pytest.FixtureRequest, repository: Path) -> list[Instruction]:
    return read(repository / "infra" / "images" / request.param / "Dockerfile")


def test_images_run_as_a_numbered_user_on_pinned_bases_with_hashed_packages(
    instructions: list[Instruction], repository: Path
) -> None:
    assert problems(instructions, repository) == []
    assert last_stage(instructions)[-1].text == "10001:10001"


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (Instruction("USER", "10001:10001"), Instruction("USER", "sangam"), "USER sangam: "),
        (Instruction("USER", "10001:10001"), Instruction("USER", "0:0"), "USER 0:0: "),
        (Instruction("USER", "10001:10001"), Instruction("WORKDIR", "/tmp"), "WORKDIR /tmp: "),
        (None, Instruction("ADD", "https://example.org/x.tar /x"), "ADD https://example.org/x.tar"),
        (None, Instruction("RUN", "curl -fsSL example.org/install | sh"), "RUN curl"),
        (None, Instruction("RUN", "pip install numpy"), "without hashes"),
        (None, Instruction("RUN", "uv pip sync --require-hashes a.lock"), "without hashes"),
        (None, Instruction("COPY", "absent ./"), "COPY absent: "),
        (None, Instruction("ENV", "API_TOKEN=x"), "names a secret"),
        (None, Instruction("FROM", "python:latest AS other"), "FROM python:latest: "),
        (None, Instruction("ARG", "PYTHON_IMAGE=python:3.10"), "FROM ${PYTHON_IMAGE}: "),
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


def test_both_images_have_one_environment_and_send_docker_only_what_they_copy(repository: Path) -> None:
    files = [read(repository / "infra" / "images" / name / "Dockerfile") for name in IMAGES]
    assert environment(files[0]) == environment(files[1])
    copied = {
        name
        for found in files[0]
        if found.name == "COPY" and "--from" not in found.text
        for name in found.text.split()[:-1]
    }
    for name in IMAGES:
        ignored = (repository / "infra" / "images" / name / "Dockerfile.dockerignore").read_text().splitlines()
        assert {line[1:] for line in ignored if line.startswith("!")} == copied


@pytest.mark.parametrize("name", IMAGES)
def test_the_lock_lies_beside_the_packages_where_the_keys_of_steps_look_for_it(repository: Path, name: str) -> None:
    text = (repository / "infra" / "images" / name / "Dockerfile").read_text()
    assert f"cp {LOCK} /opt/sangam/lib/python3.10/site-packages/\n" in text


@pytest.fixture
def world(tmp_path: Path, repository: Path) -> Path:
    """A small repository, and a docker that writes down what it is asked."""
    (tmp_path / "bin").mkdir()
    docker = tmp_path / "bin" / "docker"
    docker.write_text(
        f"""#!/bin/bash
echo "$@" >> "{tmp_path}/asked"
if [[ "$*" == *imagetools* ]]; then echo {DIGEST}; exit; fi
tar -t >> "{tmp_path}/sent"
[[ -e "{tmp_path}/fail" ]] && exit 1
while [[ $1 != --metadata-file ]]; do shift; done
printf '{{\\n  "containerimage.config.digest": "sha256:{"0" * 64}",\\n  "containerimage.digest": "{DIGEST}"\\n}}' > "$2"
"""
    )
    docker.chmod(0o755)
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (checkout / "requirements.runtime.lock").write_text("")
    (checkout / "infra" / "images").mkdir(parents=True)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in ([*git, "init", "-q"], [*git, "add", "-A"], [*git, "commit", "-qm", "a"]):
        subprocess.run(command, cwd=checkout, check=True)
    (checkout / "not-committed").write_text("secret")
    return tmp_path


def _build(world: Path, repository: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["bash", str(repository / "infra" / "images" / "build.sh")],
        cwd=world / "checkout",
        env={"PATH": f"{world / 'bin'}:{os.environ['PATH']}", **variables},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_images_are_built_from_what_is_committed_and_told_by_digest(world: Path, repository: Path) -> None:
    done = _build(world, repository, REGISTRY="registry.example/team")
    assert done.returncode == 0, done.stderr
    wanted = [f"--{option} registry.example/team/sangam-{name}@{DIGEST}" for option, name in _options()]
    assert done.stdout == " ".join(wanted) + "\n"
    bases = (world / "checkout" / "infra" / "images" / "bases.lock").read_text().splitlines()
    assert [line.split("=")[0] for line in bases] == ["PYTHON_IMAGE", "CUDA_BUILD_IMAGE", "CUDA_IMAGE"]
    assert all(line.endswith("@" + DIGEST) for line in bases)
    builds = [line for line in (world / "asked").read_text().splitlines() if " build " in line]
    assert len(builds) == 2
    for build in builds:
        assert all(f"--build-arg {line}" in build for line in bases)
        assert re.search(r"--build-arg COMMIT=[0-9a-f]{40} ", build)
        assert re.search(r"--build-arg SOURCE_DATE_EPOCH=\d+ ", build)
    assert "ACCELERATOR=gpu" in builds[1]
    assert "not-committed" not in (world / "sent").read_text()
    assert os.listdir(world / "checkout" / "infra" / "images") == ["bases.lock"]


def _options() -> tuple[tuple[str, str], ...]:
    return (("image", "pipeline"), ("trainer-image", "trainer"))


def test_bases_that_were_reviewed_are_not_looked_up_again(world: Path, repository: Path) -> None:
    lock = world / "checkout" / "infra" / "images" / "bases.lock"
    names = ("PYTHON_IMAGE", "CUDA_BUILD_IMAGE", "CUDA_IMAGE")
    lock.write_text("".join(f"{name}=registry.example/base:1@{DIGEST}\n" for name in names))
    assert _build(world, repository, REGISTRY="registry.example", ACCELERATOR="cpu").returncode == 0
    asked = (world / "asked").read_text()
    assert "imagetools" not in asked
    assert f"CUDA_IMAGE=registry.example/base:1@{DIGEST}" in asked
    lock.write_text(lock.read_text().replace(f"@{DIGEST}", "", 1))
    refused = _build(world, repository, REGISTRY="registry.example")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "(got 'PYTHON_IMAGE=registry.example/base:1')" in refused.stderr


@pytest.mark.parametrize(
    ("variables", "place", "value"),
    [
        ({}, "REGISTRY", "(got '')"),
        ({"REGISTRY": "a b"}, "REGISTRY", "(got 'a b')"),
        ({"REGISTRY": "a", "ACCELERATOR": "tpu"}, "REGISTRY", "(got 'a')"),
        ({"REGISTRY": "registry.example", "ACCELERATOR": "tpu"}, "ACCELERATOR", "(got 'tpu') ... gpu or cpu"),
    ],
)
def test_a_mistake_builds_nothing(
    world: Path, repository: Path, variables: dict[str, str], place: str, value: str
) -> None:
    refused = _build(world, repository, **variables)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert tells(refused.stderr, place, value)
    assert not (world / "asked").exists()


def test_a_failed_build_tells_no_digest(world: Path, repository: Path) -> None:
    (world / "fail").touch()
    failed = _build(world, repository, REGISTRY="registry.example")
    assert failed.returncode != 0
    assert failed.stdout == ""
