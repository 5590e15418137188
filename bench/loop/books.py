"""The books of a week: an answered request is in the log, or was lost with a server; what is logged is learned once."""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.loop.tables import day_of
from bench.loop.traffic import Answer
from sangam.components.arrow_files import open_parquet

LOST_S = 6.5
"""Seconds before a kill whose requests may be lost: 5 s of waiting for a version in the shadow,
the half second between two writes, and a busy machine."""


@dataclass(frozen=True)
class Kill:
    """One kill.

    Attributes:
        kind: what was killed.
        at_s: when, by the world's clock.
        real_s: the same by time.monotonic.
        server: number of the server, and of its process; none of other programs.
        served: likewise.
    """

    kind: str
    at_s: float
    real_s: float
    server: int = -1
    served: int = -1


def logged(folder: Path) -> dict[str, tuple[str, int]]:
    """Returns for each logged request its day and number of rows.

    Raises:
        AssertionError: a request is logged twice.
    """
    found: dict[str, tuple[str, int]] = {}
    for file in sorted(folder.glob("20*/*/*.parquet")):
        columns = ["request_id", "served_at", "post_id"]
        table = open_parquet(file).read(columns)
        for request_id, at, of in zip(*(table[name].to_pylist() for name in columns), strict=True):
            assert request_id not in found, f"{file}: request {request_id} is logged twice"
            found[request_id] = day_of(at.timestamp()), len(of)
    return found


def of_log(
    answers: Sequence[Answer], failed: Collection[str], found: Mapping[str, tuple[str, int]], kills: Sequence[Kill]
) -> dict[str, int]:
    """Returns the books of the log.

    Raises:
        AssertionError: a request is lost that no kill explains, or logged and was never sent.
    """
    lost = [answer for answer in answers if answer.request_id not in found]
    for answer in lost:
        assert any(
            (kill.server, kill.served) == (answer.server, answer.served) and -0.1 < kill.real_s - answer.real_s < LOST_S
            for kill in kills
        ), f"request {answer.request_id} is in no log, and no server was killed after it"
    without_answer = found.keys() - {answer.request_id for answer in answers}
    assert without_answer <= set(failed), f"logged, and never sent (got {sorted(without_answer - set(failed))[:3]})"
    return {
        "sent": len(answers) + len(failed),
        "answered": len(answers),
        "failed": len(failed),
        "logged": len(found),
        "logged without an answer": len(without_answer),
        "lost with a killed server": len(lost),
    }


def of_days(answers: Sequence[Answer], found: Mapping[str, tuple[str, int]], shown: int) -> dict[str, Counter[str]]:
    """Returns what each day's examples must be: rows, and the actions joined to them by source."""
    days: dict[str, Counter[str]] = {}
    for day, rows in found.values():
        days.setdefault(day, Counter())["rows"] += rows
    for answer in answers:
        if answer.request_id in found:
            of_day = days[found[answer.request_id][0]]
            of_day["shown"] += shown
            of_day["clicks"] += len(answer.clicked)
    return days


def of_run(split: Mapping[str, Any]) -> Counter[str]:
    """Returns the same of a split in a run's `ingestion.json`."""
    assert not split["dropped"], f"rows were dropped (got {split['dropped']})"
    joined = split["joined"]
    return Counter({"rows": split["written"]} | {name: joined[name].get("actions joined", 0) for name in joined})


def of_online(folder: Path, found: Mapping[str, tuple[str, int]], days: Collection[str]) -> dict[str, int | float]:
    """Returns the books of online training, which has read every logged row of some days.

    Args:
        folder: of online training.
        found: what `logged` says.
        days: days in which it ran, and those before that its first base has not learned from.

    Raises:
        AssertionError: a row was not read, or twice.
    """
    counts = json.loads((folder / "joining" / "status.json").read_text())["counts"]
    rows = sum(number for day, number in found.values() if day in days)
    assert counts["rows"] == rows, f"online training has read {counts['rows']} rows of {rows} that were logged"
    names = ("rows", "examples", "rows late", "rows with actions: shown", "rows with actions: clicks")
    return {name: counts.get(name, 0) for name in names}


def compared(ingested: Sequence[Mapping[str, Any]], expected: Mapping[str, Counter[str]]) -> dict[str, dict[str, int]]:
    """Returns the examples of each day that was trained on, which must be the expected ones.

    Args:
        ingested: `ingestion.json` of each run.
        expected: by day, what `of_days` says.

    Raises:
        AssertionError: an example or action is lost or doubled.
    """
    told: dict[str, dict[str, int]] = {}
    for run in ingested:
        for split in ("train", "eval"):
            days = run["days"][split]
            wanted: Counter[str] = sum((expected[day] for day in days), Counter())
            found = of_run(run["splits"][split])
            if split == "eval":  # Its last actions come after midnight: the next run reads them.
                assert found["rows"] == wanted["rows"], f"{days}: {found} examples, {wanted} were logged"
            else:
                assert found == wanted, f"{days}: {dict(found)} were joined, {dict(wanted)} happened"
                told |= {" and ".join(days): dict(found)}
    return told
