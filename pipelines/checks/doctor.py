"""Checks that this machine can run a pipeline, with a remedy for each failed check."""

import importlib.metadata
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import sangam
from sangam.pipelines.checks import gpu
from sangam.pipelines.installing import LOCK_FILE
from sangam.schemas.errors import UserError
from sangam.schemas.host.cgroup import usable_cores
from sangam.trainer_module.launch import machine
from sangam.trainer_module.launch.loopback import library
from sangam.trainer_module.launch.machine import Finding, enough
from sangam.trainer_module.native import library as native

PYTHON = (3, 11)
MIN_MEMORY_GIB = 8
MIN_DISK_GIB = 5
MIN_CORES = 2
PROBE_TIMEOUT_S = 180
_DEMO_PROCESSES = 5
"""Two ranks, two data workers and their dispatcher."""
_MOST_NAMED = 8
_GIB = 2**30
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)")

_LEAN = "from sangam.schemas.host.needless_imports import leave_out_needless\nleave_out_needless()\n"
PROBES = {
    "horovod": _LEAN + "import horovod.tensorflow as hvd\n"
    "assert hvd.gloo_built(), 'Horovod was built without Gloo'\n"
    "hvd.init()\n"
    "import tensorflow as tf\n"
    "total = float(hvd.allreduce(tf.constant([1.0]), name='doctor')[0])\n"
    "assert total == 1.0, f'allreduce over one rank gave {total}'\n"
    "nccl = 'has NCCL' if hvd.nccl_built() else 'without NCCL: GPUs sum through the host'\n"
    "print(f'sees TensorFlow {tf.__version__}, has Gloo, {nccl}')",
    "tfra": _LEAN + "import tensorflow as tf\n"
    "import tensorflow_recommenders_addons as tfra\n"
    "table = tfra.dynamic_embedding.CuckooHashTable(tf.int64, tf.float32, tf.constant([0.0, 0.0]))\n"
    "table.insert(tf.constant([7], tf.int64), tf.constant([[1.0, 2.0]]))\n"
    "found = table.lookup(tf.constant([7, 8], tf.int64)).numpy().tolist()\n"
    "assert found == [[1.0, 2.0], [0.0, 0.0]], f'lookup gave {found}'\n"
    "print(f'{tfra.__version__} looks rows up')",
    "protobuf": "from google.protobuf.internal import api_implementation\n"
    "import tensorflow_metadata.proto.v0.schema_pb2, tfx.proto.orchestration.pipeline_pb2\n"
    "kind = api_implementation.Type()\n"
    "assert kind != 'python', 'the slow pure Python implementation is in use'\n"
    "print(f'{kind} implementation, TFX messages load')",
}
"""Programs that run in their own processes, so that a crash becomes a finding; the last printed line is its detail."""

_REINSTALL = "run `sangam setup`, in a checkout `make setup`"
PROBE_FIXES = {
    "horovod": "Horovod must be compiled against this TensorFlow (needs gcc, g++, make): " + _REINSTALL + "; only "
    "`training.sync.transport: horovod` needs it",
    "tfra": _REINSTALL,
    "protobuf": f"unset PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION, or {_REINSTALL}",
}


def examine(lock: Path | None = None) -> Iterator[Finding]:
    """Runs every check and yields each finding as soon as it is known.

    Args:
        lock: file of pinned versions; default: the package's own.
    """
    with ThreadPoolExecutor() as pool:
        # All at once: most of their seconds is the import of TensorFlow.
        probes = [pool.submit(probe, name) for name in PROBES]
        yield python_version()
        yield library_versions(lock or Path(sangam.__file__).with_name(LOCK_FILE))
        yield from (each.result() for each in probes)
    yield ports()
    yield proxies(os.environ)
    yield from machine.examine(
        processes=_DEMO_PROCESSES, names=[socket.gethostname()], memory_mib=MIN_MEMORY_GIB * 1024
    )
    yield operations()
    yield from gpu.examine()
    yield cores()
    yield disk()


def python_version() -> Finding:
    """Checks the interpreter: TFX 1.16 and TFRA 0.8 have only one Python version in common."""
    got, wanted = sys.version_info[:2], f"{PYTHON[0]}.{PYTHON[1]}"
    return Finding("python", got == PYTHON, sys.version.split()[0], "" if got == PYTHON else f"use Python {wanted}")


def library_versions(lock: Path) -> Finding:
    """Compares every pinned library with the one installed."""
    if not lock.exists():
        return Finding(
            "libraries", False, f"{lock} is missing", "install the package again, or run from a complete checkout"
        )
    pins = {match[1]: match[2] for line in lock.read_text().splitlines() if (match := _PIN.match(line))}
    wrong = []
    for name, wanted in sorted(pins.items()):
        try:
            got = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            got = "nothing"
        if got != wanted:
            wrong.append(f"{name} {wanted} (got {got})")
    if wrong:
        more = f", and {len(wrong) - _MOST_NAMED} more" if len(wrong) > _MOST_NAMED else ""
        return Finding("libraries", False, f"not as pinned: {', '.join(wrong[:_MOST_NAMED])}{more}", _REINSTALL)
    return Finding("libraries", True, f"{len(pins)} as pinned in {lock.name}")


def probe(name: str) -> Finding:
    """Runs one of PROBES in its own process."""
    environment = os.environ | {"TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-W", "ignore", "-c", PROBES[name]]
    try:
        done = subprocess.run(
            command, check=False, env=environment, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return Finding(name, False, f"no answer within {PROBE_TIMEOUT_S} s", PROBE_FIXES[name])
    said = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines() or ["nothing was printed"]
    if done.returncode == 0:
        return Finding(name, True, said[-1])
    how = f"killed by signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
    return Finding(name, False, f"{said[-1]} ({how})", PROBE_FIXES[name])


def ports() -> Finding:
    """Checks that the processes of a training can be kept from listening for other machines."""
    try:
        library()
    except UserError as error:
        return Finding("ports", False, f"training would be reachable from the network: {error}", "install gcc")
    return Finding("ports", True, "trainings listen on loopback alone")


def proxies(environ: Mapping[str, str]) -> Finding:
    """Says which variables name proxies: gRPC and TensorFlow would connect to this machine through them."""
    named = sorted(name for name in environ if name.lower().endswith("_proxy") and name.lower() != "no_proxy")
    return Finding("proxies", True, f"not used within a training: {', '.join(named)}" if named else "none is set")


def operations() -> Finding:
    """Checks that the trainer's own operations are compiled, or can be."""
    try:
        return Finding("operations", True, f"compiled: {native.library().name}")
    except importlib.metadata.PackageNotFoundError as error:
        return Finding("operations", False, f"compiled against {error.name}, which is not installed", _REINSTALL)
    except UserError as error:
        return Finding(
            "operations", False, str(error), "install g++, or run `sangam setup` as the owner of this environment"
        )


def cores() -> Finding:
    """Checks the cores that this process may use."""
    return enough("cores", usable_cores(), MIN_CORES, "cores usable", "use more cores: the demo trains two ranks")


def disk() -> Finding:
    """Checks the free space of the current folder, where the demo and most roots are."""
    free = shutil.disk_usage(Path.cwd()).free / _GIB
    return enough("disk", free, MIN_DISK_GIB, "GiB free here", "free some space, or use --root on another disk")
