"""A leader of a process group, with a child of its own: `python -m ... FOLDER exits CODE|waits|is-deaf`."""

import signal
import subprocess
import sys
import time
from pathlib import Path


def main(folder: Path, does: str, code: str = "0") -> int:
    print("said by the leader", flush=True)
    if does == "exits":
        return int(code)
    if does == "is-deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    (folder / "child.new").write_text(str(child.pid))
    (folder / "child.new").rename(folder / "child")
    time.sleep(600)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
