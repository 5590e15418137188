"""The clock of a simulated world, which the processes that it starts read as the clock of the day."""

import mmap
import os
import subprocess
import time
from pathlib import Path

_NANOSECONDS = 1e9
_FILE = "SANGAM_LOOP_CLOCK"


class Clock:
    """A clock that the world moves forward; between two moves it runs as the machine's does."""

    def __init__(self, folder: Path, start_s: float):
        """Sets it to seconds since 1970, and makes the library that shows it to processes; needs a C compiler."""
        folder.mkdir(parents=True, exist_ok=True)
        self._library, self._path = folder / "clock.so", folder / "clock"
        source = Path(__file__).with_suffix(".c")
        subprocess.run(
            ["cc", "-shared", "-fPIC", "-O2", "-o", str(self._library), str(source), "-ldl", "-lpthread"], check=True
        )
        self._path.write_bytes(bytes(8))
        with self._path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 8)
        self._moved = memoryview(self._map).cast("q")
        self._set(start_s)

    @property
    def environment(self) -> dict[str, str]:
        """Variables of processes that read this clock."""
        return {**os.environ, "LD_PRELOAD": str(self._library), _FILE: str(self._path)}

    def now(self) -> float:
        """Returns seconds since 1970."""
        return time.time() + self._moved[0] / _NANOSECONDS

    def move_to(self, at_s: float) -> None:
        """Moves it forward; never back."""
        if at_s > self.now():
            self._set(at_s)

    def _set(self, at_s: float) -> None:
        self._moved[0] = round((at_s - time.time()) * _NANOSECONDS)
