"""Native code under sanitizers, and its results for random sizes: the programs of this folder."""

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.paths import REPOSITORY

pytestmark = [pytest.mark.slow, pytest.mark.long]

_HERE, _SOURCES = Path(__file__).parent, REPOSITORY / "trainer_module" / "native"
_OPTIONS = ["-std=c++17", "-O1", "-g1", "-fopenmp-simd", "-ffp-contract=off", "-fno-sanitize-recover=undefined"]
_MEMORY = ["-fsanitize=address,undefined", "-fno-sanitize=alignment"]


def _build(output: Path, sources: Sequence[Path], *options: str) -> Path:
    spec = find_spec("tensorflow")
    assert spec is not None
    assert spec.origin is not None
    tensorflow = Path(spec.origin).parent
    places = [f"-I{REPOSITORY}", f"-I{tensorflow / 'include'}", f"-L{tensorflow}"]
    command = ["g++", *_OPTIONS, "-DFOR_EACH_PROCESSOR=", *places, "-o", str(output), *map(str, sources), *options]
    subprocess.run(command, check=True, timeout=300)
    return output


def _run(*command: str, **environment: str) -> str:
    """Returns what a program printed; fails with it if the program failed."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=500, cwd=REPOSITORY, env=os.environ | environment, check=False
    )
    assert done.returncode == 0, f"{done.returncode}: {done.stdout[-3000:]}{done.stderr[-6000:]}"
    return done.stdout


def _preloaded(name: str) -> str:
    found = subprocess.run(["g++", f"-print-file-name={name}"], check=True, capture_output=True, text=True)
    return found.stdout.strip()


def _fuzz(library: Path, cases: int, seed: int, **environment: str) -> None:
    program = [sys.executable, "-m", "tests.trainer_module.native.fuzz", str(library), str(cases), str(seed)]
    assert _run(*program, **environment).startswith(f"{cases} cases")


def test_operations_of_random_sizes_equal_exact_sums() -> None:
    from sangam.trainer_module.native.library import library

    _fuzz(library(), 600, seed=1)


def test_operations_of_random_sizes_stay_in_their_memory(tmp_path: Path) -> None:
    sources, linked = sorted(_SOURCES.glob("*.cc")), "-l:libtensorflow_framework.so.2"
    library = _build(tmp_path / "operations.so", sources, "-shared", "-fPIC", *_MEMORY, linked)
    preloaded = f"{_preloaded('libasan.so')}:{_preloaded('libubsan.so')}"
    # TensorFlow and Python free otherwise than they allocate, and leave memory at their end.
    asan = "detect_leaks=0:handle_segv=0:alloc_dealloc_mismatch=0"
    _fuzz(library, 240, seed=2, LD_PRELOAD=preloaded, ASAN_OPTIONS=asan)


def test_products_for_every_unit_are_right_and_stay_in_their_memory(tmp_path: Path) -> None:
    if "avx512bw" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("this processor has no avx512bw")
    program = _build(tmp_path / "software_units", [_HERE / "software_units.cc"], *_MEMORY)
    assert "bfloat16: 2 x 14 layers" in _run(str(program), "14", "11")


_THREADS = ["-fsanitize=thread"]
_PUBLISH = ("word.store(value, std::memory_order_release)", "word.store(value, std::memory_order_relaxed)")
_LOCK = ("std::lock_guard<std::mutex> lock(mutex_);\n    own_[channel].pop_front();", "own_[channel].pop_front();")


def _ranks(directory: Path, old: str = "", new: str = "", *, sanitizer: Sequence[str] = _THREADS) -> Path:
    options, found = [*sanitizer, "-DPER_PROCESS=thread_local", "-pthread"], 0
    for macro, name in (("MEMORY", "shared_memory.cc"), ("SOCKETS", "sockets.cc")):
        source, text = directory / name, (_SOURCES / name).read_text(encoding="utf-8")
        found += text.count(old) if old else 0
        source.write_text(text.replace(old, new) if old else text, encoding="utf-8")
        options.append(f'-D{macro}="{source}"')
    assert found == bool(old)
    return _build(directory / "ranks", [_HERE / "ranks_as_threads.cc"], *options)


@pytest.mark.parametrize("sanitizer", [_THREADS, _MEMORY], ids=["threads", "memory"])
def test_ranks_exchange_messages_without_a_data_race_and_in_their_memory(
    sanitizer: Sequence[str], tmp_path: Path
) -> None:
    program = _ranks(tmp_path, sanitizer=sanitizer)
    for ranks, transport in ((2, "memory"), (5, "memory"), (2, "sockets"), (5, "sockets")):
        assert f"{ranks} ranks, 300 steps" in _run(str(program), str(ranks), "300", transport)


@pytest.mark.parametrize(
    ("changed", "transport"),
    [(_PUBLISH, "memory"), (_LOCK, "sockets")],
    ids=["written without release", "released without the lock"],
)
def test_a_data_race_is_found(changed: tuple[str, str], transport: str, tmp_path: Path) -> None:
    program = _ranks(tmp_path, *changed)
    done = subprocess.run([program, "3", "300", transport], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode != 0
    assert "data race" in done.stderr or "WRONG" in done.stdout
