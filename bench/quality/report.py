"""The tables of docs/quality.md. Pure functions of the results; the words around them are written by hand."""

import statistics
from collections.abc import Sequence
from pathlib import Path

from bench.quality.experiments import Table
from bench.quality.results import Result, mean_and_deviation, rows


def write(document: Path, tables: Sequence[Table], found: Sequence[Result]) -> None:
    """Puts each table between its markers, and leaves a table alone of which nothing was measured."""
    for table in tables:
        if of_table := rows(found, table.name):
            put(document, table.name, "\n".join(lines(table, of_table)))


def put(document: Path, name: str, table: str) -> None:
    """Puts a table between its markers in the document."""
    start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, rest = document.read_text().split(start)
    document.write_text(f"{before}{start}\n{table}\n\n{end}{rest.split(end)[1]}")


def lines(table: Table, found: dict[str, list[Result]]) -> list[str]:
    """Returns a table in Markdown."""
    tasks = list(next(iter(found.values()))[0].aucs)
    head = ["", *tasks, "seeds", "s a model", "commit"]
    made = [_row(head), _row(["---"] * len(head))]
    if table.goals:
        made.append(_row(["wanted", *(f"{table.goals[task]:.4f}" for task in tasks), "", "", ""]))
    for row, of_row in found.items():
        cells = []
        for task in tasks:
            values = [result.aucs[task] for result in of_row]
            missed = task in table.goals and round(statistics.fmean(values), 4) < table.goals[task]
            cells.append(mean_and_deviation(values) + (" (missed)" if missed else ""))
        seconds = statistics.fmean(result.seconds for result in of_row)
        commits = ", ".join(sorted({result.commit for result in of_row}))
        made.append(_row([row, *cells, str(len(of_row)), f"{seconds:.0f}", commits]))
    return made


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
