"""The dialect of CSV files, from the first lines of one."""

import csv
import io
import re
import zlib

from sangam.components.logs.files.light_storage import open_light
from sangam.components.logs.readers.csv import SEPARATORS
from sangam.components.logs.readers.damage import plain
from sangam.schemas.spec.data import CsvDialect

_BYTES, _LINES = 2**16, 20
_NUMBER = re.compile(r"[+-]?\d+([.,]\d+)?")
_RATINGS, _MOST_STARS, _FIRST_S = ("user_id", "item_id", "rating", "timestamp"), 10, 631_152_000


def dialect_of(path: str) -> CsvDialect:
    """Returns the separator that cuts the first lines into most cells of equal number, and names if they have none.

    A file that cannot be read has the usual dialect; reading it says what is wrong.
    """
    try:
        with open_light(path) as file:
            text = plain(file).read(_BYTES).decode("utf-8-sig", "replace")
    except (OSError, EOFError, zlib.error):
        return CsvDialect()
    usual, best = 1, ","
    for separator in SEPARATORS:
        widths = {len(line) for line in _lines(text, separator)}
        if len(widths) == 1 and (width := widths.pop()) > usual:
            usual, best = width, separator
    lines = _lines(text, best)
    if usual > 1 and lines and _is_row(lines[0]):
        return CsvDialect(separator=best, header=_names(lines))
    return CsvDialect(separator=best)


def _is_row(cells: list[str]) -> bool:
    """Returns whether the first line is no names: it has numbers alone, or nothing."""
    filled = [cell.strip() for cell in cells if cell.strip()]
    # pandas numbers columns without names, and gives its index none.
    is_numbered = cells[0] == "" and cells[1:] == [str(number) for number in range(len(cells) - 1)]
    return bool(filled) and all(map(_NUMBER.fullmatch, filled)) and not is_numbered


def _names(lines: list[list[str]]) -> tuple[str, ...]:
    """Returns names for columns without: MovieLens', if the cells look like its ratings."""
    if len(lines[0]) == len(_RATINGS):
        stars, times = ([float(line[place]) for line in lines if _NUMBER.fullmatch(line[place])] for place in (2, 3))
        if all(0 <= each <= _MOST_STARS for each in stars) and all(each > _FIRST_S for each in times):
            return _RATINGS
    return tuple(f"column_{number}" for number in range(1, len(lines[0]) + 1))


def _lines(text: str, separator: str) -> list[list[str]]:
    """Returns the cells of the first lines, without the last, which may be cut."""
    mark = "\x1f" if len(separator) > 1 else separator
    reader = csv.reader(io.StringIO(text.replace(separator, mark), newline=""), delimiter=mark)
    found: list[list[str]] = []
    try:
        for line in reader:
            if line:
                found.append(line)
            if len(found) > _LINES:
                break
    except csv.Error:
        pass
    return found[:-1] if len(found) > 1 and len(text) >= _BYTES else found
