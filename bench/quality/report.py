"""The tables of docs/quality.md. Pure functions of the results; the words around them are written by hand."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.quality.experiments import Table
from bench.quality.results import Result, mean_and_deviation, rows

SUMMARY = "one_change"
"""Marker of the table of all plain specs."""


def write(document: Path, tables: Sequence[Table], found: Sequence[Result]) -> None:
    """Puts each table between its markers, and leaves a table alone of which nothing was measured."""
    for table in tables:
        if of_table := rows(found, table.name):
            put(document, table.name, "\n".join(lines(table, of_table)))
    plain = {table.name: of_table for table in tables if "plain" in (of_table := rows(found, table.name))}
    if plain:
        put(document, SUMMARY, "\n".join(summary(plain)))


def put(document: Path, name: str, table: str) -> None:
    """Puts a table between its markers in the document."""
    start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, rest = document.read_text().split(start)
    document.write_text(f"{before}{start}\n{table}\n\n{end}{rest.split(end)[1]}")


def lines(table: Table, found: dict[str, list[Result]]) -> list[str]:
    """Returns a table in Markdown."""
    tasks = list(next(iter(found.values()))[0].aucs)
    head = ["", *tasks, "seeds", "s a model", "CPU s an epoch", "commit"]
    made = [_row(head), _row(["---"] * len(head))]
    if table.goals:
        made.append(_row(["wanted", *(f"{table.goals[task]:.4f}" for task in tasks), *[""] * 4]))
    for row, of_row in found.items():
        cells = []
        for task in tasks:
            values = [result.aucs[task] for result in of_row]
            missed = task in table.goals and round(statistics.fmean(values), 4) < table.goals[task]
            cells.append(mean_and_deviation(values) + (" (missed)" if missed else ""))
        seconds = statistics.fmean(result.seconds for result in of_row)
        cpu = [result.epoch_cpu_s for result in of_row if result.epoch_cpu_s is not None]
        commits = ", ".join(sorted({result.commit for result in of_row}))
        # The clock says little where several trainings ran at a time.
        times = ["", f"{statistics.fmean(cpu):.1f}"] if cpu else [f"{seconds:.0f}", ""]
        made.append(_row([row, *cells, str(len(of_row)), *times, commits]))
    return made


def summary(found: Mapping[str, Mapping[str, Sequence[Result]]]) -> list[str]:
    """Returns a table in Markdown of several data sets: mean AUC by row, and processor time over that of row `plain`.

    Args:
        found: results by table and row.
    """
    names = list(dict.fromkeys(row for of_table in found.values() for row in of_table))
    head = ["", *(name.removeprefix(f"{SUMMARY}_").replace("_", " ") for name in found), "processor time"]
    made = [_row(head), _row(["---"] * len(head))]
    for row in names:
        cells, ratios = [], []
        for of_table in found.values():
            if row in of_table:
                cells.append(f"{_mean_auc(of_table[row]):.4f}")
                ratios.append(_epoch_cpu_s(of_table[row]) / _epoch_cpu_s(of_table["plain"]))
            else:
                cells.append("")
        made.append(_row([row, *cells, f"{statistics.fmean(ratios):.1f}"]))
    return made


def _mean_auc(results: Sequence[Result]) -> float:
    return statistics.fmean(statistics.fmean(result.aucs.values()) for result in results)


def _epoch_cpu_s(results: Sequence[Result]) -> float:
    return statistics.fmean(result.epoch_cpu_s or 0.0 for result in results)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
