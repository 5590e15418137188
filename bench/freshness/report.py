"""The tables of docs/online.md."""

import statistics
from collections.abc import Sequence
from typing import Any

from bench.quality.results import mean_and_deviation
from bench.results import table

BASE = "none"


def report(results: Sequence[dict[str, Any]]) -> str:
    """Returns a table in Markdown: the AUC of each case, server and task, and by how much it is more than the base's.

    The difference is taken for each seed by itself: seeds differ in their logs by more than servers do.
    """
    made = []
    for case in dict.fromkeys(result["case"] for result in results):
        of_case = [result for result in results if result["case"] == case]
        tasks = sorted(of_case[0]["aucs"][BASE])
        seeds, commits = len(of_case), ", ".join(sorted({result["commit"] for result in of_case}))
        rows = sum(result["rows"] for result in of_case) / seeds
        minutes = sum(result["minutes"] for result in of_case) / seeds
        made.append(f"**{case}**: {rows:,.0f} rows in {minutes:,.0f} minutes; seeds: {seeds}; commit {commits}\n")
        columns = [*([task] for task in tasks), tasks]
        cells = [[server, *(_cell(of_case, server, each) for each in columns)] for server in of_case[0]["aucs"]]
        made += [table(["deltas", *tasks, "mean"], cells), ""]
    return "\n".join(made).rstrip()


def _cell(results: Sequence[dict[str, Any]], server: str, tasks: Sequence[str]) -> str:
    values = [statistics.fmean(result["aucs"][server][task] for task in tasks) for result in results]
    if server == BASE:
        return mean_and_deviation(values)
    base = [statistics.fmean(result["aucs"][BASE][task] for task in tasks) for result in results]
    gains = [value - before for value, before in zip(values, base, strict=True)]
    spread = f" ± {statistics.stdev(gains):.4f}" if len(gains) > 1 else ""
    return f"{statistics.fmean(values):.4f} ({statistics.fmean(gains):+.4f}{spread})"
