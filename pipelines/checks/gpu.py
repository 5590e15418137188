"""Checks of this machine's GPUs: driver, CUDA, cuDNN, NCCL and memory. A machine without a GPU passes."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from sangam.pipelines.checks.gpu_probe import CUDA, CUDNN, DRIVER, MANAGEMENT, NCCL
from sangam.trainer_module.launch.machine import Finding

OLDEST_CUDA = 12_000
"""TensorFlow 2.16 is built with CUDA 12.3; a driver of any CUDA 12 runs it."""
OLDEST_CUDNN = 8_900
LEAST_FREE_GIB = 2
_GIB = 2**30
_TIMEOUT_S = 30
_UPDATE = "install NVIDIA's driver 525.60 or newer"
_LIBRARIES = "use the trainer's image for gpu, or install {} and name its folder in LD_LIBRARY_PATH"


def examine() -> Iterator[Finding]:
    """Yields the findings; one where there is no GPU."""
    try:
        facts = probed()
    except subprocess.TimeoutExpired:
        yield Finding("gpu", False, f"the driver does not answer within {_TIMEOUT_S} s", "restart the machine")
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or [f"exit code {error.returncode}"])[-1]
        yield Finding("gpu", False, f"the driver cannot be asked: {last}", _UPDATE)
    else:
        yield from findings(facts)


def probed() -> dict[str, Any]:
    """Returns the facts of `gpu_probe`, asked in a process of its own."""
    command = [sys.executable, "-m", "sangam.pipelines.checks.gpu_probe"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=_TIMEOUT_S)
    return dict(json.loads(done.stdout))


def findings(facts: Mapping[str, Any]) -> Iterator[Finding]:
    """Judges the facts of `gpu_probe`: yields the first thing that keeps a GPU from being used, or what there is."""
    errors = facts["errors"]
    if errors[DRIVER]:
        yield _without_driver(facts["cards"])
        return
    if facts["cuda"] < OLDEST_CUDA:
        yield Finding("gpu driver", False, f"{_driver(facts)} is for CUDA {_version(facts['cuda'])}, not 12", _UPDATE)
        return
    yield Finding("gpu driver", True, f"{_driver(facts)}, for CUDA up to {_version(facts['cuda'])}")
    yield _memory(facts)
    lacking = [name for name in CUDA if errors[name]]
    fix = _LIBRARIES.format("CUDA 12.3") if lacking else ""
    yield Finding("cuda", not lacking, f"cannot load {', '.join(lacking)}" if lacking else "all libraries load", fix)
    yield _cudnn(errors[CUDNN], facts["cudnn"])
    # Only several ranks need it, and they have another way.
    through = "cannot be loaded: ranks sum gradients through the host"
    yield Finding("nccl", True, through if errors[NCCL] else "loads; `horovod` says whether it was built with it")


def _without_driver(cards: int) -> Finding:
    if cards:
        return Finding("gpu", False, f"{cards} of NVIDIA's cards, and no driver ({DRIVER})", _UPDATE)
    return Finding("gpu", True, "none: dense layers run on the host")


def _memory(facts: Mapping[str, Any]) -> Finding:
    if facts["errors"][MANAGEMENT] or not facts["gpus"]:
        fix = "give this process a GPU (in a container: the runtime's option, on Kubernetes cluster.launcher.host.gpu)"
        return Finding("gpu", False, "the driver is here and shows no GPU", fix)
    told = [
        f"{each['name']} ({each['free'] / _GIB:.1f} of {each['total'] / _GIB:.1f} GiB free)" for each in facts["gpus"]
    ]
    full = any(each["free"] < LEAST_FREE_GIB * _GIB for each in facts["gpus"])
    return Finding(
        "gpu", not full, ", ".join(told), "end what else is on the card; `nvidia-smi` names it" if full else ""
    )


def _cudnn(error: str, version: int) -> Finding:
    if error:
        return Finding("cudnn", False, f"cannot be used: {error}", _LIBRARIES.format("cuDNN 8.9"))
    is_new = version >= OLDEST_CUDNN
    number = f"{version // 1000}.{version % 1000 // 100}.{version % 100}"
    return Finding("cudnn", is_new, number, "" if is_new else _LIBRARIES.format("cuDNN 8.9"))


def _driver(facts: Mapping[str, Any]) -> str:
    return str(facts["driver"] or "the driver")


def _version(cuda: int) -> str:
    return f"{cuda // 1000}.{cuda % 1000 // 10}"


def libraries(facts: Mapping[str, Any]) -> Iterator[Finding]:
    """Judges what an image has to bring, on any machine: every library but the driver's own loads."""
    for name in (*CUDA, CUDNN, NCCL):
        yield Finding(name, not facts["errors"][name], facts["errors"][name] or "loads")


if __name__ == "__main__":  # On a machine without the command line's libraries: infra/gpu; in an image's build.
    told = list(libraries(probed()) if sys.argv[1:] == ["--libraries"] else examine())
    for each in told:
        print("ok   " if each.is_ok else "wrong", each.name, each.detail, each.fix and f"fix: {each.fix}")
    sys.exit(not all(each.is_ok for each in told))
