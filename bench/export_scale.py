"""Time and memory to export and to load many rows, in both forms: `python -m bench.export_scale [--rows 10000000]`.

Fabricates the outputs of a training, then runs the export and a server's load as processes of their own. Memory is
the peak of resident memory over that of a process that has loaded TensorFlow and nothing else; the table's own size is
its keys and its embeddings in float32.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import results
from sangam.trainer_module.launch.children import ALLOCATOR

DIM = 16
_MOST_EXPORT_S, _MOST_LOAD_S, _MOST_TABLES = 120.0, 30.0, 3.0
_ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_USE_LEGACY_KERAS": "1", **ALLOCATOR}


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="of all tables together")
    parser.add_argument(
        "--forms", default="stock-float32,tfra-float32,stock-int8", help="form-type, separated by commas"
    )
    parser.add_argument("--output", type=Path, default=Path("runs/export_scale.json"), help="all numbers")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="export-scale-") as folder:
        found = measure(Path(folder), arguments.rows, arguments.forms.split(","))
    print(table(found))
    results.write(arguments.output, found)


def measure(root: Path, rows: int, forms: Sequence[str]) -> dict[str, Any]:
    """Returns all numbers of a size."""
    bare = _peak_of_loading(root, "", rows)["peak_bytes"]
    found: dict[str, Any] = {"rows": rows, "table_bytes": rows * (DIM * 4 + 8), "bare_bytes": bare, "forms": {}}
    for form in forms:
        _run("bench.large_training", root, rows, *form.split("-"))
        seconds, peak = _run("sangam.trainer_module.export", root / form / "job.json", os.getpid())
        report = json.loads((root / form / "output" / "export.json").read_text())
        loaded = _peak_of_loading(root, str(root / form / "model"), rows)
        loaded["loaded_peak_bytes"] -= bare
        found["forms"][form] = {
            "export_s": seconds,
            "export_bytes": peak - bare,
            "model_bytes": report["model_bytes"],
            "tasks": report["tasks"],
            **loaded,
        }
    return found


def table(found: dict[str, Any]) -> str:
    """Returns the numbers as a table in Markdown; forms that exceed a bound are marked."""
    size, rows = found["table_bytes"], []
    for form, got in found["forms"].items():
        export_tables, load_tables = got["export_bytes"] / size, got["loaded_peak_bytes"] / size
        load_s = got["imports_s"] + got["load_s"]
        met = got["export_s"] <= _MOST_EXPORT_S and load_s <= _MOST_LOAD_S and export_tables <= _MOST_TABLES
        numbers = (got["export_s"], export_tables, got["model_bytes"] / 1e6, load_s, load_tables)
        times = [f"{got[name]:.2f}" for name in ("one_user_ms", "full_rows_ms")]
        shown = [f"{number:,.{digits}f}" for number, digits in zip(numbers, (1, 2, 0, 1, 2), strict=True)]
        rows.append([f"{form}{'' if met else ' (missed)'}", *shown, *times])
    header = ["form, rows", "export s", "peak / table", "model MB", "load s", "peak / table", "1 user x 200: ms"]
    about = (
        f"{found['rows']:,} rows x {DIM}, a table of {size / 1e6:,.0f} MB; bare: {found['bare_bytes'] / 1e6:,.0f} MB"
    )
    return f"{about}\n\n{results.table([*header, '200 rows: ms'], rows)}"


def _run(module: str, *arguments: object) -> tuple[float, int]:
    """Runs a module to its end; returns its seconds, and its peak of resident memory in bytes."""
    begun = time.perf_counter()
    command = [sys.executable, "-W", "ignore", "-m", module, *map(str, arguments)]
    process = subprocess.Popen(command, env={**os.environ, **_ENVIRONMENT})
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{module} ended with code {process.returncode}")
    return time.perf_counter() - begun, usage.ru_maxrss * 1024


def _peak_of_loading(root: Path, model: str, rows: int) -> dict[str, Any]:
    output = root / "loaded.json"
    _run("bench.loaded_export", model, rows, output)
    result: dict[str, Any] = json.loads(output.read_text())
    return result


if __name__ == "__main__":
    main()
