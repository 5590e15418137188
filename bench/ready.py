"""How soon servers of a model are ready, and what memory they take: `python -m bench.ready MODEL`.

Starts servers of the model one after the other, which stay, first ones that copy tables and then ones that map them
(`--map-tables`). For each it prints the seconds of its log (verification, loading, warm-up), those from its start, and
the memory of all servers of its kind so far: anonymous memory is each one's own, PSS counts shared pages once. MODEL is
an exported SavedModel, such as those of `bench.export_scale`.
"""

import argparse
import hashlib
import json
import re
import shutil
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from bench.serving import server
from sangam.components.registry.versions import MANIFEST_FILE

_TIMES = re.compile(r"verify_s=([\d.]+) load_s=([\d.]+) warmup_s=([\d.]+)")
_MAPS = "smaps_rollup"


def main() -> None:
    """Measures, and prints a line of JSON for each server."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="an exported SavedModel")
    parser.add_argument("--servers", type=int, default=2, help="of each kind")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sangam-bench-") as scratch:
        folder = Path(scratch) / "versions"
        shutil.copytree(arguments.model, folder / "1")
        _add_manifest(folder / "1")
        for kind, options in (("copied", ()), ("mapped", ("--map-tables",))):
            with ExitStack() as stack:
                pids: list[int] = []
                for number in range(arguments.servers):
                    log = Path(scratch) / kind / str(number) / "server.log"
                    log.parent.mkdir(parents=True)
                    begun = time.perf_counter()
                    _, pid = stack.enter_context(server(folder, log, *options))
                    pids.append(pid)
                    numbers = {"tables": kind, "servers": len(pids), "start_s": time.perf_counter() - begun}
                    print(json.dumps(numbers | _times(log.read_text()) | memory(pids)), flush=True)


def _add_manifest(model: Path) -> None:
    """Seals a version as the pusher does, as far as a server reads it: it verifies each file."""
    files = [path for path in model.rglob("*") if path.is_file() and path.name != MANIFEST_FILE]
    sums = {path.relative_to(model).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    entries = {name: {"sha256": sha256} for name, sha256 in sums.items()}
    (model / MANIFEST_FILE).write_text(json.dumps({"files": entries}))


def _times(log: str) -> dict[str, float]:
    found = _TIMES.search(log)
    if found is None:
        raise SystemExit(f"the server has loaded nothing: {log}")
    return dict(zip(("verify_s", "load_s", "warmup_s"), map(float, found.groups()), strict=True))


def memory(pids: list[int]) -> dict[str, float]:
    """Returns the memory of processes together, in MiB."""
    sums = {"Pss": 0, "Pss_Anon": 0, "Pss_File": 0}
    for pid in pids:
        for line in Path(f"/proc/{pid}/{_MAPS}").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in sums:
                sums[name] += int(value.split()[0])
    return {f"{name.lower()}_mib": round(value / 1024) for name, value in sums.items()}


if __name__ == "__main__":
    main()
