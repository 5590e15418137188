"""What NVIDIA's libraries say of this machine, as one line of JSON: `python -m sangam.pipelines.checks.gpu_probe`.

A process of its own: a library that crashes must not end `sangam doctor`.
"""

import ctypes
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

DRIVER, MANAGEMENT = "libcuda.so.1", "libnvidia-ml.so.1"
CUDA = (
    "libcudart.so.12",
    "libcublas.so.12",
    "libcublasLt.so.12",
    "libcufft.so.11",
    "libcurand.so.10",
    "libcusolver.so.11",
    "libcusparse.so.12",
)
CUDNN, NCCL = "libcudnn.so.8", "libnccl.so.2"
_NVIDIA, _DISPLAYS = "0x10de", "0x03"
_PCI = Path("/sys/bus/pci/devices")
_TEXT_BYTES = 96


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


def facts() -> dict[str, Any]:
    """Returns the facts that `gpu.findings` judges.

    Returns:
        `cards`: NVIDIA's devices on the bus; `errors`: by library why it cannot be loaded, empty where it can;
        `driver`: its version; `cuda`: newest CUDA of the driver, as 12030; `cudnn`: as 8907; `gpus`: [{name, total,
        free}] in bytes. Numbers are 0 and texts empty where unknown.
    """
    loaded, errors = {}, {}
    for name in (DRIVER, MANAGEMENT, *CUDA, CUDNN, NCCL):
        try:
            loaded[name], errors[name] = ctypes.CDLL(name), ""
        except OSError as error:
            errors[name] = str(error)
    told: dict[str, Any] = {"cards": _cards(), "errors": errors, "driver": "", "cuda": 0, "cudnn": 0, "gpus": []}
    if DRIVER in loaded:
        version = ctypes.c_int(0)
        loaded[DRIVER].cuDriverGetVersion(ctypes.byref(version))
        told["cuda"] = version.value
    if MANAGEMENT in loaded:
        told |= _managed(loaded[MANAGEMENT])
    if CUDNN in loaded:
        told["cudnn"], errors[CUDNN] = _cudnn()
    return told


def _cudnn() -> tuple[int, str]:
    """Returns cuDNN's version, or 0 and why it has none: it ends its process where one of its parts is missing."""
    program = (
        f"import ctypes; library = ctypes.CDLL({CUDNN!r}); library.cudnnGetVersion.restype = ctypes.c_size_t; "
        "print(library.cudnnGetVersion())"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    if done.returncode == 0:
        return int(done.stdout), ""
    return 0, (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]


def _managed(library: ctypes.CDLL) -> dict[str, Any]:
    """Returns the driver's version and the GPUs, as NVIDIA's management library tells them."""
    if library.nvmlInit_v2() != 0:
        return {}
    text, count, gpus = ctypes.create_string_buffer(_TEXT_BYTES), ctypes.c_uint(0), []
    library.nvmlSystemGetDriverVersion(text, _TEXT_BYTES)
    driver = text.value.decode()
    library.nvmlDeviceGetCount_v2(ctypes.byref(count))
    for number in range(count.value):
        device, memory = ctypes.c_void_p(), _Memory()
        library.nvmlDeviceGetHandleByIndex_v2(number, ctypes.byref(device))
        library.nvmlDeviceGetName(device, text, _TEXT_BYTES)
        library.nvmlDeviceGetMemoryInfo(device, ctypes.byref(memory))
        gpus.append({"name": text.value.decode(), "total": memory.total, "free": memory.free})
    library.nvmlShutdown()
    return {"driver": driver, "gpus": gpus}


def _cards() -> int:
    """Returns the number of NVIDIA's displays and accelerators on the bus."""
    if not _PCI.is_dir():
        return 0
    found = ((device / "vendor", device / "class") for device in _PCI.iterdir())
    return sum(
        vendor.read_text().strip() == _NVIDIA and kind.read_text().startswith(_DISPLAYS)
        for vendor, kind in found
        if vendor.exists() and kind.exists()
    )


if __name__ == "__main__":
    print(json.dumps(facts()))
