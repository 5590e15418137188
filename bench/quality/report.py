"""The tables of docs/quality.md. Pure functions of the results; the words around them are written by hand."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.quality.experiments import Table
from bench.quality.results import Result, mean_and_deviation, rows
from bench.results import table


def write(document: Path, tables: Sequence[Table], found: Sequence[Result]) -> None:
    """Puts each measured table between its markers."""
    for each in tables:
        if of_table := rows(found, each.name):
            put(document, each.name, markdown(each, of_table))


def put(document: Path, name: str, text: str) -> None:
    """Puts a table between its markers in the document."""
    start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, rest = document.read_text().split(start)
    document.write_text(f"{before}{start}\n{text}\n\n{end}{rest.split(end)[1]}")


def markdown(of: Table, found: Mapping[str, Sequence[Result]]) -> str:
    """Returns a table in Markdown."""
    tasks = list(next(iter(found.values()))[0].aucs)
    made = [["wanted", *(f"{of.goals[task]:.4f}" for task in tasks), "", "", ""]] if of.goals else []
    for row, of_row in found.items():
        cells = []
        for task in tasks:
            values = [result.aucs[task] for result in of_row]
            missed = task in of.goals and round(statistics.fmean(values), 4) < of.goals[task]
            cells.append(mean_and_deviation(values) + (" (missed)" if missed else ""))
        cpu_s = statistics.fmean(result.epoch_cpu_s for result in of_row)
        commits = ", ".join(sorted({result.commit for result in of_row}))
        made.append([row, *cells, str(len(of_row)), f"{cpu_s:.1f}", commits])
    return table(["", *tasks, "seeds", "CPU s an epoch", "commit"], made)
