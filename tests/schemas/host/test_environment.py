import io
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from sangam.schemas.host.environment import clean, drop_proxies, keep_off_proxy, settle
from tests.paths import REPOSITORY


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """An environment and filters of warnings that are as before afterwards."""
    for name in ("no_proxy", "NO_PROXY", "TF_CONFIG", "KERAS_BACKEND", "PYTHONWARNINGS"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    with warnings.catch_warnings():
        yield monkeypatch


def test_a_child_gets_what_it_needs_and_nothing_that_is_for_other_programs() -> None:
    needed = {"PATH": "/bin", "LC_ALL": "C", "PYTHONPATH": ".", "CUDA_VISIBLE_DEVICES": "", "SANGAM_LOG_DIR": "/l"}
    foreign = {
        **{
            name: "http://127.0.0.1:9"
            for name in ("http_proxy", "https_proxy", "HTTPS_PROXY", "grpc_proxy", "ALL_PROXY")
        },
        **{"TF_CONFIG": "{}", "KERAS_BACKEND": "torch", "PYTHONWARNINGS": "error", "PYTHONIOENCODING": "ascii"},
        **{"AWS_SECRET_ACCESS_KEY": "s", "PYTHONSTARTUP": "x.py"},
    }
    environ = {**needed, **foreign}
    clean(environ)
    assert environ == needed


def test_a_pod_keeps_what_is_of_its_spec_but_no_proxy() -> None:
    environ = {"OF_THE_SPEC": "1", "http_proxy": "http://proxy.example", "NO_PROXY": "x", "ALL_PROXY": "y"}
    drop_proxies(environ)
    assert environ == {"OF_THE_SPEC": "1"}


def test_hosts_are_exempt_from_proxies_once_beside_those_that_are_already() -> None:
    environ = {"no_proxy": "corp.example,127.0.0.1"}
    for _ in range(2):
        keep_off_proxy(environ, "127.0.0.1", "localhost")
    assert environ == {"no_proxy": "corp.example,127.0.0.1,localhost", "NO_PROXY": "127.0.0.1,localhost"}


def test_an_entry_point_uses_no_proxy_for_its_machine_and_no_setting_of_another_job(shell: pytest.MonkeyPatch) -> None:
    shell.setenv("TF_CONFIG", "{}")
    shell.setenv("no_proxy", "corp.example")
    settle()
    assert os.environ["no_proxy"] == "corp.example,localhost,127.0.0.1,::1"
    assert "TF_CONFIG" not in os.environ


def test_a_warning_ends_no_command(shell: pytest.MonkeyPatch) -> None:
    shell.setenv("PYTHONWARNINGS", "error")
    warnings.simplefilter("error")
    settle()
    with warnings.catch_warnings(record=True) as told:  # Not `pytest.warns`, which takes back the filters.
        warnings.warn("of a library", FutureWarning, stacklevel=1)
    assert len(told) == 1
    assert "PYTHONWARNINGS" not in os.environ


def test_files_are_utf8_in_a_locale_that_is_not_and_the_output_keeps_its_encoding(tmp_path: Path) -> None:
    program = (
        "import pathlib, sys\nfrom sangam.schemas.host.environment import settle\nsettle()\n"
        "pathlib.Path(sys.argv[1]).write_text('st\\xe4dte')\nprint('st\\xe4dte', sys.stdout.encoding)"
    )
    plain = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    command = [sys.executable, "-W", "error", "-c", program, str(tmp_path / "written")]
    done = subprocess.run(command, env={**os.environ, **plain}, cwd=REPOSITORY, capture_output=True, check=True)
    assert (tmp_path / "written").read_bytes() == "städte".encode()
    assert done.stdout.lower() in (b"st\\xe4dte ascii\n", b"st\\xe4dte ansi_x3.4-1968\n")


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [("ascii", b"st\\xe4dte \\u7528\n"), ("latin-1", b"st\xe4dte \\u7528\n"), ("utf-8", "städte 用\n".encode())],
)
def test_what_an_output_cannot_encode_is_escaped(shell: pytest.MonkeyPatch, encoding: str, shown: bytes) -> None:
    output = io.BytesIO()
    shell.setattr(sys, "stdout", io.TextIOWrapper(output, encoding=encoding))
    settle()
    print("städte 用", flush=True)
    assert output.getvalue() == shown
