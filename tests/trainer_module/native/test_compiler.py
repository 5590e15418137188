"""Compiled libraries: whole or not there, whoever compiles them at the same time."""

import ctypes
import logging
import os
import sys
import threading
from pathlib import Path

import pytest

from sangam.schemas.errors import UserError
from sangam.trainer_module.native import compiler
from sangam.trainer_module.native import library as operations
from sangam.trainer_module.native.compiler import C, compiled
from tests.errors import tells


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of libraries of a new Python."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    (tmp_path / "answer.c").write_text("int answer(void) { return 42; }\n")
    (tmp_path / "lib").mkdir()
    return tmp_path / "lib"


def library(folder: Path) -> Path:
    """Returns a library with one function; compiles it if needed."""
    source = folder.parent / "answer.c"
    return compiled("answer", C, [source.read_bytes()], lambda output: ["-o", str(output), str(source)])


def answer(path: Path) -> int:
    """Returns what its function returns, in a process of its own: a truncated library ends the process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, bytes([ctypes.CDLL(str(path)).answer()]))
        finally:
            os._exit(0)
    os.close(writing)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    return os.read(reading, 1)[0]


def test_a_library_is_compiled_once(folder: Path) -> None:
    made = library(folder)
    assert answer(made) == 42
    inode = made.stat().st_ino
    assert library(folder).stat().st_ino == inode
    assert list(folder.iterdir()) == [made]


@pytest.mark.parametrize("damage", ["truncated", "empty", "changed", "longer"])
def test_a_damaged_library_is_made_anew(folder: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    made = library(folder)
    content = bytearray(made.read_bytes())
    if damage == "truncated":
        del content[len(content) // 2 :]
    elif damage == "empty":
        content.clear()
    elif damage == "changed":
        content[len(content) // 2] ^= 1
    else:
        content += b"more"
    made.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        assert answer(library(folder)) == 42
    assert f"event=library_damaged path={made}" in caplog.text
    assert list(folder.iterdir()) == [made]


def test_a_damaged_library_without_a_compiler_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = library(folder)
    os.truncate(made, 100)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError) as error:
        library(folder)
    assert tells(str(error.value), str(made), "damaged ... (got neither cc nor gcc)")


def test_processes_of_one_id_do_not_share_a_temporary_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the first processes of two containers that share the folder: both have id 1."""
    monkeypatch.setattr(os, "getpid", lambda: 1)
    outputs: list[Path] = []
    both = threading.Barrier(2, timeout=30)

    def arguments(output: Path) -> list[str]:
        outputs.append(output)
        both.wait()
        return ["-o", str(output), str(folder.parent / "answer.c")]

    threads = [threading.Thread(target=compiled, args=("answer", C, [b""], arguments)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(outputs)) == 2
    [made] = folder.iterdir()
    assert answer(made) == 42


def test_a_compilation_that_fails_leaves_nothing(folder: Path) -> None:
    (folder.parent / "answer.c").write_text("int answer(void) {")
    with pytest.raises(UserError, match="missing, and cannot be compiled"):
        library(folder)
    assert list(folder.iterdir()) == []


def test_the_seal_is_of_length_and_digest(folder: Path) -> None:
    content = library(folder).read_bytes()
    assert content.startswith(b"\x7fELF")
    assert compiler._seal_of(content[: -compiler._SEAL_BYTES]) == content[-compiler._SEAL_BYTES :]
    assert b"sealed %016d " % (len(content) - compiler._SEAL_BYTES) in content


def test_all_sources_of_the_operations_are_compiled_and_count_for_the_keys_of_steps() -> None:
    text = Path(operations.__file__).read_text(encoding="utf-8")
    files = [file for file in Path(operations.__file__).parent.iterdir() if file.suffix in (".cc", ".h")]
    assert len(files) > 10
    assert not [file.name for file in files if f'"{file.name}"' not in text]
