"""Installs the pinned packages that pip cannot: TFX's metadata excludes Python 3.11, and Horovod has no wheel."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import sangam
from sangam.schemas.errors import UserError

LOCK_FILE, BUILD_LOCK_FILE = "requirements.runtime.lock", "requirements.build.lock"
_SETTINGS_FILE = "pyproject.txt"
_COMPILERS = ("gcc", "g++", "make")
_HOROVOD = re.compile(r"^horovod==.*(\n    .*)*\n", re.MULTILINE)
_SENT_ELSEWHERE = ("UV_PYTHON", "UV_PROJECT_ENVIRONMENT", "VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME", "MAKEFLAGS")
"""Variables that send uv to another environment, or Horovod's build to this run of make."""


def install(*, with_horovod: bool) -> None:
    """Installs the packages of the runtime lock into this interpreter's environment, and compiles the operations.

    Args:
        with_horovod: whether to compile Horovod, which `training.sync.transport: horovod` needs.

    Raises:
        UserError: a compiler or uv is missing, or uv failed; its own output says why.
    """
    if missing := [name for name in _COMPILERS if shutil.which(name) is None]:
        raise UserError(
            f"setup: {', '.join(missing)} not found; install them (Debian: apt-get install build-essential)"
        )
    if find_spec("uv") is None:
        raise UserError(
            "setup: uv is not installed beside Sangam; install the wheel with pip, or run `make setup` in a checkout"
        )
    if "UV_CONFIG_FILE" in os.environ:
        raise UserError(
            "setup: UV_CONFIG_FILE hides the settings with which Horovod is built (got "
            f"{os.environ['UV_CONFIG_FILE']}); unset it and keep your settings in ~/.config/uv/uv.toml"
        )
    package = Path(sangam.__file__).parent
    with tempfile.TemporaryDirectory(prefix="sangam-setup-") as folder:
        lock = (package / LOCK_FILE).read_text(encoding="utf-8")
        Path(folder, LOCK_FILE).write_text(lock if with_horovod else _HOROVOD.sub("", lock), encoding="utf-8")
        shutil.copyfile(package / BUILD_LOCK_FILE, Path(folder, BUILD_LOCK_FILE))
        shutil.copyfile(package / _SETTINGS_FILE, Path(folder, "pyproject.toml"))
        command = [sys.executable, "-m", "uv", "pip", "install", "--python", sys.executable, "--compile-bytecode"]
        # The lock is complete; some of its packages declare bounds that exclude each other.
        command += ["--no-deps", "--require-hashes", "--build-constraints", BUILD_LOCK_FILE, "-r", LOCK_FILE]
        environment = {name: value for name, value in os.environ.items() if name not in _SENT_ELSEWHERE}
        if (code := subprocess.run(command, cwd=folder, env=environment, check=False).returncode) != 0:
            raise UserError(f"setup: uv ended with code {code} (see above); once that is solved, run it again")
    for module in ("sangam.trainer_module.native.library", "sangam.trainer_module.launch.loopback"):
        if subprocess.run([sys.executable, "-m", module], stdout=subprocess.DEVNULL, check=False).returncode != 0:
            raise UserError(f"setup: {module} could not be compiled (see above)")
