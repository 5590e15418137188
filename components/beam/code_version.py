"""The code version of this image or checkout, which must be equal in a step and the workers of its jobs."""

import functools
import hashlib
import sys
from importlib.metadata import version
from pathlib import Path

import sangam

_ROOT = Path(sangam.__file__).parent
# Paths, not module names: sources of named modules would become part of every step's cache key.
_FOLDERS = ("schemas/", "components/", "trainer_module/", "pipelines/")
_DIGITS = 16


@functools.cache
def code_version(root: Path = _ROOT) -> str:
    """Returns a digest of every source, of Python and of Beam: functions of one version may not load in another."""
    digest = hashlib.sha256(f"{sys.version_info[:2]} {version('apache-beam')}\n".encode())
    for folder in _FOLDERS:
        for file in sorted((root / folder).rglob("*.py")):
            source = file.read_bytes()
            digest.update(f"{file.relative_to(root)} {len(source)}\n".encode())
            digest.update(source)
    return digest.hexdigest()[:_DIGITS]
