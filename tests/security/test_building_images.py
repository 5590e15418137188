"""The script that builds the images, against recorders of docker, podman, buildah, cosign and oras."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.errors import tells
from tests.security.oci_archive import write_archive

pytestmark = pytest.mark.processes

DIGEST = "sha256:" + "a" * 64
TOOLS = ["basename", "bash", "cat", "cp", "dirname", "git", "grep", "ls", "mkdir", "mktemp", "rm", "sed", "tar"]
ENGINE = f"""#!/bin/bash
root=$(cd "$(dirname "$0")/.." && pwd)
echo "$(basename "$0") $*" >> "$root/asked"
answer() {{ cat "$root/$1" 2>/dev/null || echo "$2"; }}
case "$*" in
  "buildx version") [[ ! -e $root/no-buildx ]]; exit ;;
  info) [[ ! -e $root/no-daemon ]]; exit ;;
  "buildx inspect") printf 'Name:          mine\\nDriver:        %s\\n' "$(answer driver docker-container)"; exit ;;
  "buildx inspect "* | "buildx create "*) [[ "$*" == *create* && ! -e $root/no-create ]]; exit ;;
  *imagetools* | *Digest}}}}*) [[ "$*" == *"$(answer no-digest-of nothing)"* ]] && exit 1; echo {DIGEST}; exit ;;
  *build*) [[ -e $root/fail ]] && exit 1
esac
while (( $# )); do
  case $1 in
    type=oci,dest=*) to=${{1#*dest=}}; cp "$root/archive" "${{to%%,*}}" ;;
    oci-archive:*) cp "$root/archive" "${{1#*:}}" ;;
    --metadata-file)
      echo '{{"containerimage.config.digest": "sha256:{"0" * 64}", "containerimage.digest": "{DIGEST}"}}' > "$2" ;;
    --digestfile) printf {DIGEST} > "$2" ;;
    --file) ls "$(dirname "$2")/../.." >> "$root/sent" ;;
  esac
  shift
done
"""

Build = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """A small repository, the few programs that the script needs, and docker."""
    (tmp_path / "bin").mkdir()
    for tool in TOOLS:
        (tmp_path / "bin" / tool).symlink_to(shutil.which(tool) or tool)
    _program(tmp_path, "python3", f'#!/bin/bash\nexec "{sys.executable}" -S "$@"\n')
    _program(tmp_path, "docker", ENGINE)
    write_archive(tmp_path / "archive", [{"etc/os-release": 'ID=debian\nVERSION_ID="12"\n'}])
    checkout = tmp_path / "checkout"
    for name, text in {
        "requirements.runtime.lock": "",
        "pyproject.toml": '[project]\nversion = "0.1.0"\n\n[tool.other]\nversion = "9"\n',
        "infra/images/Dockerfile": "",
        "infra/sbom/allowed.csv": "",
    }.items():
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text(text)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    dated = {**os.environ, "GIT_COMMITTER_DATE": "2026-03-01T12:00:00+02:00"}
    for command in ([*git, "init", "-q"], [*git, "add", "-A"], [*git, "commit", "-qm", "a"]):
        subprocess.run(command, cwd=checkout, check=True, env=dated)
    (checkout / "not-committed").write_text("secret")
    return tmp_path


def _program(world: Path, name: str, text: str = ENGINE) -> None:
    (world / "bin" / name).write_text(text)
    (world / "bin" / name).chmod(0o755)


def _only(world: Path, engine: str) -> None:
    (world / "bin" / "docker").unlink()
    _program(world, engine)


def _asked(world: Path, *words: str) -> list[str]:
    path = world / "asked"
    lines = path.read_text().splitlines() if path.exists() else []
    return [line for line in lines if all(word in line for word in words)]


@pytest.fixture
def build(world: Path, repository: Path) -> Build:
    def run(registry: str = "registry.example/team", **variables: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["bash", str(repository / "infra" / "images" / "build.sh")],
            cwd=world / "checkout",
            env={"PATH": str(world / "bin"), "REGISTRY": registry, **variables},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    return run


OPTIONS = (("image", "pipeline"), ("trainer-image", "trainer"))


@pytest.mark.parametrize("engine", ["docker", "podman", "buildah"])
def test_images_are_built_from_what_is_committed_and_told_by_digest(world: Path, build: Build, engine: str) -> None:
    _only(world, engine)
    done = build()
    assert done.returncode == 0, done.stderr
    wanted = [f"--{option} registry.example/team/sangam-{name}@{DIGEST}" for option, name in OPTIONS]
    assert done.stdout == " ".join(wanted) + "\n"
    bases = (world / "checkout" / "infra" / "images" / "bases.lock").read_text().splitlines()
    assert [line.split("=")[0] for line in bases] == ["PYTHON_IMAGE"]
    assert all(line.endswith("@" + DIGEST) for line in bases)
    pipeline, trainer = (_asked(world, " build ", f"/sangam-{name}", "ACCELERATOR")[0] for _, name in OPTIONS)
    python = bases[0].partition("=")[2]
    assert "ACCELERATOR=cpu " in pipeline
    assert "ACCELERATOR=gpu " in trainer
    for command in (pipeline, trainer):
        assert f"PYTHON_IMAGE={python} " in command
        assert re.search(r"--build-arg COMMIT=[0-9a-f]{40} ", command)
    sent = (world / "sent").read_text()
    assert "pyproject.toml" in sent
    assert "not-committed" not in sent


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ("docker", ["rewrite-timestamp=true", "SOURCE_DATE_EPOCH=315532800"]),
        ("podman", ["--timestamp 315532800", "--identity-label=false"]),
        ("buildah", ["--timestamp 315532800", "--identity-label=false"]),
    ],
)
def test_files_have_one_date_whatever_the_commit(world: Path, build: Build, engine: str, words: list[str]) -> None:
    _only(world, engine)
    assert build().returncode == 0
    builds = _asked(world, " build ")
    assert builds
    assert all(word in line for word in words for line in builds)


@pytest.mark.parametrize("engine", ["docker", "podman", "buildah"])
def test_labels_say_what_the_image_is(world: Path, build: Build, engine: str) -> None:
    _only(world, engine)
    origin = "https://someone:password@git.example/team/sangam.git"
    subprocess.run(["git", "remote", "add", "origin", origin], cwd=world / "checkout", check=True)
    assert build().returncode == 0
    labelled = _asked(world, " build", "image.title=sangam-pipeline ")[0]
    labels = dict(re.findall(r"--label org\.opencontainers\.image\.(\w+)=(\S+)", labelled))
    assert re.fullmatch("[0-9a-f]{40}", labels.pop("revision"))
    assert labels == {
        "title": "sangam-pipeline",
        "version": "0.1.0",
        "created": "2026-03-01T10:00:00Z",
        "licenses": "Apache-2.0",
        "source": "https://git.example/team/sangam.git",
    }


@pytest.mark.parametrize("engine", ["podman", "buildah"])
def test_labels_are_in_no_cache(world: Path, build: Build, engine: str) -> None:
    _only(world, engine)
    assert build().returncode == 0
    assert not _asked(world, "--label", "--layers ")
    assert len(_asked(world, "--label", "--layers=false")) == len(_asked(world, " build ", "--layers ")) == 2


def test_a_repository_without_an_address_has_no_label_for_it(world: Path, build: Build) -> None:
    assert build().returncode == 0
    assert not _asked(world, "image.source=")


def test_docker_s_own_driver_is_not_used(world: Path, build: Build) -> None:
    (world / "driver").write_text("docker\n")
    done = build()
    assert done.returncode == 0, done.stderr
    assert _asked(world, "buildx create --name sangam-images --driver docker-container")
    assert all("--builder sangam-images " in line for line in _asked(world, "buildx build"))
    assert "made the builder sangam-images" in done.stderr


def test_a_builder_that_can_date_files_is_used_as_it_is_wherever_it_runs(world: Path, build: Build) -> None:
    (world / "no-daemon").touch()
    assert build().returncode == 0
    assert not _asked(world, "buildx create")
    assert all("--builder mine " in line for line in _asked(world, "buildx build"))


def test_a_builder_that_cannot_be_made_is_asked_for(world: Path, build: Build) -> None:
    (world / "driver").write_text("docker\n")
    (world / "no-create").touch()
    refused = build()
    assert (refused.returncode, refused.stdout) == (1, "")
    assert tells(refused.stderr, "docker buildx", "docker-container")
    assert not _asked(world, "buildx build")


@pytest.mark.parametrize(
    ("lacks", "there", "taken"),
    [("no-buildx", "podman", "podman"), ("no-daemon", "buildah", "buildah"), ("", "buildah", "docker")],
)
def test_podman_and_buildah_are_taken_where_docker_cannot_build(
    world: Path, build: Build, lacks: str, there: str, taken: str
) -> None:
    _program(world, there)
    (world / "driver").write_text("docker\n")
    if lacks:
        (world / lacks).touch()
    assert build().returncode == 0
    assert {line.split()[0] for line in _asked(world, " build ")} == {taken}


@pytest.mark.parametrize(
    ("lacks", "variables", "reason"),
    [
        ("no-buildx", {}, "docker has no buildx, podman is not installed, buildah is not installed"),
        ("no-daemon", {}, "docker's daemon does not answer, podman is not installed"),
        ("no-daemon", {"ENGINE": "docker"}, "(got docker's daemon does not answer)"),
        ("", {"ENGINE": "podman"}, "(got podman is not installed)"),
    ],
)
def test_without_a_program_that_builds_one_sentence_says_what_is_lacking(
    world: Path, build: Build, lacks: str, variables: dict[str, str], reason: str
) -> None:
    (world / "driver").write_text("docker\n")
    if lacks:
        (world / lacks).touch()
    refused = build(**variables)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert tells(refused.stderr, "ENGINE", reason)
    assert len(refused.stderr.splitlines()) == 1
    assert os.listdir(world / "checkout" / "infra" / "images") == ["Dockerfile"]


def test_a_digest_that_cannot_be_had_leaves_no_empty_file(world: Path, build: Build) -> None:
    (world / "no-digest-of").write_text("python:3.11")
    refused = build()
    assert (refused.returncode, refused.stdout) == (1, "")
    assert tells(refused.stderr, "docker.io/library/python:3.11-slim-bookworm", "digest")
    assert os.listdir(world / "checkout" / "infra" / "images") == ["Dockerfile"]


def test_bases_that_were_reviewed_are_not_looked_up_again(world: Path, build: Build) -> None:
    lock = world / "checkout" / "infra" / "images" / "bases.lock"
    lock.write_text(f"PYTHON_IMAGE=registry.example/base:1@{DIGEST}\n")
    assert build(ACCELERATOR="cpu").returncode == 0
    assert not _asked(world, "imagetools")
    assert _asked(world, f"PYTHON_IMAGE=registry.example/base:1@{DIGEST}")
    lock.write_text("PYTHON_IMAGE=registry.example/base:1\n")
    refused = build(ACCELERATOR="cpu")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert tells(refused.stderr, "infra/images/bases.lock", "(got 'PYTHON_IMAGE=registry.example/base:1')")


@pytest.mark.parametrize(
    ("variables", "place", "value"),
    [
        ({"registry": ""}, "REGISTRY", "(got '')"),
        ({"registry": "a b"}, "REGISTRY", "(got 'a b')"),
        ({"registry": "a b", "ARCHIVES": "out"}, "REGISTRY", "(got 'a b')"),
        ({"registry": "a", "ACCELERATOR": "tpu"}, "REGISTRY", "(got 'a')"),
        ({"ACCELERATOR": "tpu"}, "ACCELERATOR", "(got 'tpu') ... gpu or cpu"),
        ({"SIGN_KEY": "a.key"}, "SIGN_KEY", "(got 'a.key')"),
    ],
)
def test_a_mistake_builds_nothing(world: Path, build: Build, variables: dict[str, str], place: str, value: str) -> None:
    refused = build(**variables)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert tells(refused.stderr, place, value)
    assert not _asked(world)


@pytest.mark.parametrize("engine", ["docker", "podman", "buildah"])
def test_a_failed_build_tells_no_digest(world: Path, build: Build, engine: str) -> None:
    _only(world, engine)
    (world / "fail").touch()
    failed = build()
    assert failed.returncode != 0
    assert failed.stdout == ""
    assert not _asked(world, "push=true") + _asked(world, "docker://")


def test_settings_of_this_machine_are_mounted_and_are_no_arguments(world: Path, build: Build) -> None:
    assert build(PIP_CONFIG_FILE="/a/pip.conf", UV_CONFIG_FILE="/a/uv.toml", SSL_CERT_FILE="/a/ca.crt").returncode == 0
    wanted = "--secret id=pip,src=/a/pip.conf --secret id=uv,src=/a/uv.toml --secret id=certificates,src=/a/ca.crt"
    assert all(wanted in line for line in _asked(world, " build "))
    (world / "asked").unlink()
    assert build().returncode == 0
    assert not _asked(world, "--secret")


@pytest.mark.parametrize("engine", ["docker", "buildah"])
def test_archives_are_written_without_a_registry(world: Path, build: Build, engine: str) -> None:
    _only(world, engine)
    done = build(registry="", ARCHIVES="out")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert sorted(os.listdir(world / "checkout" / "out")) == [
        f"sangam-{name}.{kind}" for _, name in OPTIONS for kind in ("cdx.json", "oci.tar")
    ]
    assert not _asked(world, "push=true") + _asked(world, "docker://")


def test_what_an_image_holds_is_read_from_it_and_attached(world: Path, build: Build) -> None:
    _program(world, "oras")
    assert build().returncode == 0
    folder = world / "checkout" / "infra" / "sbom"
    assert json.loads((folder / "sangam-trainer.cdx.json").read_text())["bomFormat"] == "CycloneDX"
    assert _asked(world, "oras attach") == [
        "oras attach --artifact-type application/vnd.cyclonedx+json "
        f"registry.example/team/sangam-{name}@{DIGEST} sangam-{name}.cdx.json:application/vnd.cyclonedx+json"
        for _, name in OPTIONS
    ]


def test_a_key_signs_the_image_and_what_it_holds(world: Path, build: Build) -> None:
    _program(world, "cosign")
    _program(world, "oras")
    assert build(SIGN_KEY="a.key").returncode == 0
    for _, name in OPTIONS:
        image = f"registry.example/team/sangam-{name}@{DIGEST}"
        signed, attested = _asked(world, "cosign", image)
        assert signed == f"cosign sign --yes --tlog-upload=false --key a.key {image}"
        assert attested.startswith("cosign attest --yes --tlog-upload=false --key a.key --type cyclonedx --predicate ")
    assert not _asked(world, "oras")


def test_without_oras_and_without_a_key_it_says_that_nothing_is_attached(build: Build) -> None:
    done = build()
    assert done.returncode == 0
    assert done.stderr.count("is not attached") == 2
