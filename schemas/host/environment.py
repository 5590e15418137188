"""The environment of a process: settings that a shell has for other programs must not reach ours."""

import contextlib
import locale
import os
import sys
import warnings
from collections.abc import MutableMapping
from io import TextIOWrapper

NO_HTTP_PROXY = ("grpc.enable_http_proxy", 0)
"""Option of each gRPC channel: gRPC takes even 127.0.0.1 to the proxy of `http_proxy`."""

_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
_NAMES = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "HOSTNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP"),
        *("LD_LIBRARY_PATH", "LD_PRELOAD", "GLIBC_TUNABLES", "XLA_FLAGS", "VIRTUAL_ENV", "CONDA_PREFIX"),
        *("PYTHONPATH", "PYTHONHOME", "PYTHONHASHSEED", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"),
        *("PYTHONNOUSERSITE", "PYTHONUSERBASE"),
    )
)
_PREFIXES = (
    *("LC_", "XDG_", "SANGAM_", "CUDA_", "NVIDIA_", "NCCL_", "TF_", "HOROVOD_", "GRPC_"),
    *("OMP_", "KMP_", "MKL_", "OPENBLAS_", "MALLOC_", "ASAN_", "LSAN_", "UBSAN_", "TSAN_"),
)
_OTHER_PROGRAMS = frozenset(("TF_CONFIG", "KERAS_BACKEND"))
"""TensorFlow and Keras read them, and another job's value changes what they do."""


def clean(environ: MutableMapping[str, str]) -> None:
    """Removes all but what the processes of a training need; above all proxies, which TensorFlow obeys."""
    for name in list(environ):
        if name in _OTHER_PROGRAMS or not (name in _NAMES or name.startswith(_PREFIXES)):
            del environ[name]


def drop_proxies(environ: MutableMapping[str, str]) -> None:
    """Removes the proxies alone: a pod's other variables may be of its spec."""
    for name in list(environ):
        if name.lower().endswith("_proxy"):
            del environ[name]


def keep_off_proxy(environ: MutableMapping[str, str], *hosts: str) -> None:
    """Exempts hosts from the proxies of an environment, for libraries that take no such setting."""
    for name in ("no_proxy", "NO_PROXY"):
        exempt = [host for host in environ.get(name, "").split(",") if host.strip()]
        environ[name] = ",".join([*exempt, *(host for host in hosts if host not in exempt)])


def settle() -> None:
    """Makes this process and its children independent of such settings. Entry points call it first.

    A proxy is not used for this machine. A warning of a library is no error. Files are UTF-8, in any locale; what an
    output cannot encode is escaped.
    """
    _read_and_write_utf8()
    keep_off_proxy(os.environ, *_THIS_MACHINE)
    for name in _OTHER_PROGRAMS:
        os.environ.pop(name, None)
    if any(action == "error" for action, *_ in warnings.filters):
        os.environ.pop("PYTHONWARNINGS", None)
        warnings.simplefilter("default")
        warnings.simplefilter("ignore", DeprecationWarning)  # As Python does by default.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            with contextlib.suppress(ValueError):  # Closed by whoever started this process.
                stream.reconfigure(errors="backslashreplace")


def _read_and_write_utf8() -> None:
    """Starts this process again if its locale has another encoding, which Python takes for all files."""
    if locale.getpreferredencoding(False).lower() in ("utf-8", "utf8") or os.environ.get("PYTHONUTF8") == "1":
        return
    os.environ["PYTHONUTF8"] = "1"
    # Its output stays in the encoding of whoever reads it.
    os.environ.setdefault("PYTHONIOENCODING", sys.stdout.encoding)
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
