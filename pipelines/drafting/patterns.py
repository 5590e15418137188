"""One pattern for the paths of many files."""

import fnmatch
import glob
import re
from collections.abc import Callable, Collection, Sequence
from itertools import takewhile

_ENDING = re.compile(r"(\.[A-Za-z]\w*?)+(-\d+-of-\d+)?(\.gz)?$")


def common_pattern(paths: Sequence[str], is_mark: Callable[[str], object]) -> str:
    """Returns a pattern that matches paths of equal depth; differing parts become `*`.

    Args:
        paths: paths with slashes.
        is_mark: returns whether a part of a path holds the day or the split. Below such a folder, files are matched by
            extension only, since their names may change from day to day.
    """
    *folders, names = zip(*(path.split("/") for path in paths), strict=True)
    parts = [_part(sorted(set(each))) for each in folders]
    if any(is_mark(each[0]) for each in folders):
        return "/".join([*parts, f"*{_ending(names)}"])
    return "/".join([*parts, _part(sorted(set(names)), _ending(names))])


def matches(pattern: str, path: str) -> bool:
    """Returns whether a path matches, part by part."""
    patterns, parts = pattern.split("/"), path.split("/")
    return len(patterns) == len(parts) and all(map(fnmatch.fnmatchcase, parts, patterns))


def _part(texts: Sequence[str], ending: str = "") -> str:
    """Returns a pattern for one part; the texts on both sides of a day are matched separately."""
    if len(texts) == 1:
        return glob.escape(texts[0])
    if all("\0" in text for text in texts):
        before, after = ({text.split("\0")[side] for text in texts} for side in (0, 1))
        start = glob.escape(before.pop()) if len(before) == 1 else "*"
        end = glob.escape(after.pop()) if len(after) == 1 else f"*{ending}"
        return f"{start}\0{end}"
    # Digits are not part of the common start: later names may begin with others.
    start = _common_start(texts).rstrip("0123456789")
    if "=" in start:
        # Values of a column, as Hive writes them: later ones may begin with any letter.
        return f"{glob.escape(start.partition('=')[0])}=*{ending}"
    return f"{glob.escape(start)}*{ending}" if ending else "*"


def _ending(names: Sequence[str]) -> str:
    endings = {(match[0] if (match := _ENDING.search(name)) else "") for name in names}
    endings = {re.sub(r"-\d+-of-\d+", "-*", ending) for ending in endings}
    # Only the last extension counts: `.parquet` of part.snappy.parquet.
    last = {re.sub(r"^.*(?=\.(?!gz$)[^.]+(\.gz)?$)", "", ending) for ending in endings}
    return last.pop() if len(last) == 1 else f"{_common_start(last)}*"


def _common_start(texts: Collection[str]) -> str:
    pairs = zip(min(texts), max(texts), strict=False)
    return "".join(first for first, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
