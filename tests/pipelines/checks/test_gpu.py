"""What the doctor says of GPUs: judged from facts, and asked of libraries with NVIDIA's interface."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sangam.pipelines.checks.gpu import examine, findings
from sangam.pipelines.checks.gpu_probe import CUDA, CUDNN, DRIVER, MANAGEMENT, NCCL
from tests.errors import mentions

_GIB = 2**30
_NONE = {name: f"{name}: cannot open shared object file" for name in (DRIVER, MANAGEMENT, *CUDA, CUDNN, NCCL)}
_ALL = dict.fromkeys(_NONE, "")
_CARD = {"name": "NVIDIA L4", "total": 23 * _GIB, "free": 22 * _GIB}
_GOOD: dict[str, Any] = {
    "cards": 1,
    "errors": _ALL,
    "driver": "550.54.15",
    "cuda": 12_040,
    "cudnn": 8_907,
    "gpus": [_CARD],
}


def test_a_machine_without_a_gpu_is_fine_and_told_so() -> None:
    [found] = findings({**_GOOD, "cards": 0, "errors": _NONE})
    assert found.is_ok
    assert found.detail == "none: dense layers run on the host"


def test_a_machine_with_all_of_it_is_fine() -> None:
    found = list(findings({**_GOOD, "gpus": [_CARD, _CARD]}))
    assert all(each.is_ok for each in found)
    assert [each.name for each in found] == ["gpu driver", "gpu", "cuda", "cudnn", "nccl"]
    assert [each.detail for each in found[:2]] == [
        "550.54.15, for CUDA up to 12.4",
        "NVIDIA L4 (22.0 of 23.0 GiB free), NVIDIA L4 (22.0 of 23.0 GiB free)",
    ]
    assert found[3].detail == "8.9.7"


@pytest.mark.parametrize(
    ("changed", "name", "said", "fix"),
    [
        ({"errors": _NONE}, "gpu", "1 of NVIDIA's cards, and no driver (libcuda.so.1)", "driver 525.60 or newer"),
        ({"cuda": 11_040, "driver": "470.9"}, "gpu driver", "470.9 is for CUDA 11.4, not 12", "driver 525.60 or newer"),
        ({"gpus": []}, "gpu", "shows no GPU", "cluster.launcher.host.gpu"),
        ({"gpus": [{**_CARD, "free": _GIB}]}, "gpu", "(1.0 of 23.0 GiB free)", "nvidia-smi"),
        ({"errors": {**_ALL, CUDA[1]: "no"}}, "cuda", "cannot load libcublas.so.12", "LD_LIBRARY_PATH"),
        ({"errors": {**_ALL, CUDNN: "no"}, "cudnn": 0}, "cudnn", "cannot be used: no", "cuDNN 8.9"),
        ({"cudnn": 8_600}, "cudnn", "8.6.0", "cuDNN 8.9"),
    ],
)
def test_what_keeps_a_gpu_from_being_used_is_named_with_its_fix(
    changed: dict[str, Any], name: str, said: str, fix: str
) -> None:
    [wrong] = [each for each in findings({**_GOOD, **changed}) if not each.is_ok]
    assert wrong.name == name
    assert mentions(wrong.detail, said)
    assert mentions(wrong.fix, fix)


def test_without_nccl_ranks_have_another_way() -> None:
    *_, nccl = findings({**_GOOD, "errors": {**_ALL, NCCL: "no"}})
    assert (nccl.name, nccl.is_ok) == ("nccl", True)
    assert mentions(nccl.detail, "through the host")


_LIBRARIES = {
    DRIVER: "int cuDriverGetVersion(int* v) { *v = 12030; return 0; }",
    CUDNN: "#include <stddef.h>\nsize_t cudnnGetVersion(void) { return 8907; }",
    MANAGEMENT: """#include <string.h>
        typedef struct { unsigned long long total, free, used; } memory;
        int nvmlInit_v2(void) { return 0; }
        int nvmlShutdown(void) { return 0; }
        int nvmlSystemGetDriverVersion(char* text, unsigned n) { strncpy(text, "545.23.08", n); return 0; }
        int nvmlDeviceGetCount_v2(unsigned* n) { *n = 1; return 0; }
        int nvmlDeviceGetHandleByIndex_v2(unsigned i, void** device) { *device = (void*) 7; return 0; }
        int nvmlDeviceGetName(void* device, char* text, unsigned n) {
          strncpy(text, device == (void*) 7 ? "Card" : "another", n); return 0; }
        int nvmlDeviceGetMemoryInfo(void* device, memory* m) { m->total = 8ull << 30; m->free = 6ull << 30; return 0; }
    """,
}
"""Libraries with the signatures of NVIDIA's headers."""


@pytest.mark.processes
def test_the_facts_come_from_the_libraries_of_this_process(tmp_path: Path) -> None:
    for name, source in _LIBRARIES.items():
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(tmp_path / name)], input=source, text=True, check=True
        )
    environment = os.environ | {"LD_LIBRARY_PATH": str(tmp_path)}
    command = [sys.executable, "-m", "sangam.pipelines.checks.gpu_probe"]
    told = json.loads(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)
    assert (told["driver"], told["cuda"], told["cudnn"]) == ("545.23.08", 12_030, 8_907)
    assert told["gpus"] == [{"name": "Card", "total": 8 * _GIB, "free": 6 * _GIB}]
    assert [told["errors"][name] for name in _LIBRARIES] == [""] * 3


@pytest.mark.processes
def test_a_cudnn_that_lacks_a_part_is_a_finding_of_its_own(tmp_path: Path) -> None:
    sources = {
        DRIVER: _LIBRARIES[DRIVER],
        CUDNN: """#include <stdio.h>
            #include <stdlib.h>
            size_t cudnnGetVersion(void) { fprintf(stderr, "Could not load a part\\n"); abort(); }""",
    }
    for name, source in sources.items():
        command = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(tmp_path / name)]
        subprocess.run(command, input=source, text=True, check=True)
    command = [sys.executable, "-m", "sangam.pipelines.checks.gpu_probe"]
    environment = os.environ | {"LD_LIBRARY_PATH": str(tmp_path)}
    told = json.loads(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)
    assert (told["cuda"], told["cudnn"], told["errors"][CUDNN]) == (12_030, 0, "Could not load a part")


@pytest.mark.processes
def test_a_driver_that_crashes_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "#include <stdlib.h>\nint cuDriverGetVersion(int* v) { abort(); }"
    command = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(tmp_path / DRIVER)]
    subprocess.run(command, input=source, text=True, check=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    [found] = examine()
    assert (found.name, found.is_ok) == ("gpu", False)
    assert mentions(found.detail, "cannot be asked")
