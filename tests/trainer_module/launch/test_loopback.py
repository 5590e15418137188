"""What asks for all addresses gets loopback, whoever asks; and ports that are open nevertheless are found."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sangam.schemas.errors import UserError
from sangam.trainer_module.launch import loopback

PROGRAM = """
import socket
def bound(family, kind, address, only_v6=0):
    with socket.socket(family, kind) as made:
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only_v6)
        made.bind((address, 0))
        return made.getsockname()[0]
print(bound(socket.AF_INET, socket.SOCK_STREAM, "0.0.0.0"))
print(bound(socket.AF_INET, socket.SOCK_STREAM, "127.0.0.5"))
print(bound(socket.AF_INET6, socket.SOCK_STREAM, "::"))
print(bound(socket.AF_INET6, socket.SOCK_STREAM, "::", 1))
print(bound(socket.AF_INET6, socket.SOCK_STREAM, "::1"))
print(bound(socket.AF_INET, socket.SOCK_DGRAM, "0.0.0.0"))
"""


def test_bind_is_kept_on_loopback_for_streams_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "")
    loopback.keep_children_on_loopback()
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["127.0.0.1", "127.0.0.5", "::ffff:127.0.0.1", "::1", "::1", "0.0.0.0"]


def test_what_was_preloaded_before_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/somewhere/allocator.so")
    loopback.keep_children_on_loopback()
    assert os.environ["LD_PRELOAD"] == f"{loopback.library()}:/somewhere/allocator.so"


def test_open_ports_are_those_that_other_machines_reach() -> None:
    with socket.create_server(("127.0.0.1", 0)), socket.create_server(("0.0.0.0", 0)) as open_:
        assert loopback.open_ports([os.getpid()]) == [f"0.0.0.0:{open_.getsockname()[1]}"]


def test_without_a_compiler_it_is_said_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("LD_PRELOAD", "")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    with pytest.raises(UserError, match="no C compiler"):
        loopback.library()
    loopback.keep_children_on_loopback()
    assert os.environ["LD_PRELOAD"] == ""
    assert "install gcc" in caplog.text
