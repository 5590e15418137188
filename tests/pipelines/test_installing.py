"""What `sangam setup` refuses before it installs anything, and what it gives to uv (the rest: tests/package)."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from sangam.pipelines import installing
from sangam.pipelines.installing import LOCK_FILE, install
from sangam.schemas.errors import UserError
from tests.errors import mentions


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The folder's files and the environment of the only call of uv, which succeeds."""
    seen: dict[str, Any] = {}

    def run(command: list[str], **how: Any) -> "subprocess.CompletedProcess[str]":
        if "uv" in command:
            seen.update({file.name: file.read_text() for file in Path(how["cwd"]).iterdir()}, environment=how["env"])
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(installing, "find_spec", lambda name: name)
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.delenv("UV_CONFIG_FILE", raising=False)
    return seen


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match=r"gcc, g\+\+, make not found.*build-essential"):
        install(with_horovod=True)


def test_in_a_checkout_without_uv_the_way_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installing, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="make setup"):
        install(with_horovod=True)


def test_settings_that_hide_those_of_the_build_are_refused(
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_CONFIG_FILE", "mine.toml")
    with pytest.raises(UserError) as raised:
        install(with_horovod=True)
    assert mentions(str(raised.value), "UV_CONFIG_FILE ... (got mine.toml)")
    assert not given


@pytest.mark.parametrize("with_horovod", [True, False])
def test_uv_gets_the_lock_of_the_package_and_no_variable_of_another_environment(
    repository: Path, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch, with_horovod: bool
) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", "another")
    install(with_horovod=with_horovod)
    whole = (repository / LOCK_FILE).read_text()
    left_out = set(whole.splitlines()) - set(given[LOCK_FILE].splitlines())
    if with_horovod:
        assert given[LOCK_FILE] == whole
    else:
        assert {line.split("==")[0].split(":")[0].strip() for line in left_out} == {"horovod", "--hash=sha256"}
    assert given["pyproject.toml"] == (repository / "pyproject.toml").read_text()
    assert "VIRTUAL_ENV" not in given["environment"]


def test_a_failure_of_uv_says_that_its_words_are_above(given: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda command, **how: subprocess.CompletedProcess(command, 2))
    with pytest.raises(UserError, match="uv ended with code 2"):
        install(with_horovod=True)
