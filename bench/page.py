"""How long the page of a run takes to draw: `python -m bench.page ROOT/runs/RUN`, with nothing else running.

A process of its own for each of five drawings, as a run draws one page: imports, reading the outputs, charts, template.
"""

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from pipelines.history.runs import find_run
from pipelines.history.show import read_shown

_TIMES = 5


def main(given: str) -> None:
    """Prints seconds and size."""
    page, seconds = "", []
    for _ in range(_TIMES):
        started = time.monotonic()
        page = subprocess.run(
            [sys.executable, "-m", "bench.page", "--draw", given], check=True, capture_output=True, text=True
        ).stdout
        seconds.append(time.monotonic() - started)
    told = {"seconds": [round(each, 2) for each in sorted(seconds)], "median_s": round(statistics.median(seconds), 2)}
    print(json.dumps({**told, "bytes": len(page.encode()), "charts": page.count("<svg")}))


def _draw(given: str) -> str:
    from components.reports.page.collect import collect
    from components.reports.page.facts import Run
    from components.reports.page.render import render

    shown = read_shown(find_run(Path(given)))
    summary = shown.run.summary
    assert summary is not None, f"{given}: has no summary"
    names = {"blessing": "infra_blessing"}
    outputs = {
        names.get(each.key, each.key): each.path
        for each in shown.outputs
        if each.key != "blessing" or each.step == "infra_validator"
    }
    return render(Run(summary.name, summary.run, summary.date, summary.status, summary.blessed), collect(outputs))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--draw", run]:
            print(_draw(run))
        case [run]:
            main(run)
        case _:
            sys.exit(__doc__)
