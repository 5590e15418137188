"""Builds prism, Beam's Go runner, from its pinned module, once for each version of it.

`python -m tests.engines.programs` builds it ahead of the tests and prints its path.
"""

import hashlib
import os
import shutil
from pathlib import Path

from tests.cluster.programs import _go_build, _locked

_SOURCES = Path(__file__).parent / "programs" / "prism"
_PACKAGE = "github.com/apache/beam/sdks/v2/go/cmd/prism"


def prism() -> Path | None:
    """Returns the program, after building it if it is not there: 3 minutes on 2 cores. None without Go."""
    if shutil.which("go") is None:
        return None
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sangam" / "engines"
    digest = hashlib.sha256(b"".join((_SOURCES / name).read_bytes() for name in ("go.mod", "go.sum"))).hexdigest()
    made = cache / f"prism-{digest[:16]}"
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / "lock"):
        if not made.exists():
            unfinished = made.with_suffix(".unfinished")
            _go_build(_SOURCES, _PACKAGE, unfinished)
            for older in cache.glob("prism-*"):
                if older != unfinished:
                    older.unlink()
            unfinished.rename(made)
    return made


if __name__ == "__main__":
    print(prism())
