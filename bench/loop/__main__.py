"""Lives a week of the closed loop: `python -m bench.loop FOLDER`."""

import argparse
import sys
from pathlib import Path

from bench import results
from bench.loop.report import draw, markdown
from bench.loop.week import Options, Week
from bench.loop.world import Size


def options(arguments: list[str]) -> Options:
    """Returns what a command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="for everything; it must be new")
    parser.add_argument("--days", type=int, default=7, help="after two at random")
    parser.add_argument("--hour", type=float, default=60.0, help="seconds of an hour")
    parser.add_argument("--run-hour", type=float, default=45.0, help="the same while a daily run is under way, if more")
    parser.add_argument("--hours", type=int, default=24, help="of each day in which users come")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--servers", type=int, default=2)
    parser.add_argument("--users", type=int, default=Size.users)
    parser.add_argument("--posts", type=int, default=Size.posts)
    parser.add_argument("--requests", type=int, default=Size.requests, help="an hour")
    parser.add_argument("--no-online", action="store_true", help="daily runs alone")
    parser.add_argument("--no-shadow", action="store_true", help="versions are live at once")
    parser.add_argument("--no-kills", action="store_true")
    parser.add_argument("--short", action="store_true", help="two small days and one run, for tests; other options no")
    given = parser.parse_args(arguments)
    if given.short:
        return short(given.folder)
    return Options(
        folder=given.folder,
        days=given.days,
        hour_s=given.hour,
        run_hour_s=given.run_hour,
        hours=given.hours,
        seed=given.seed,
        servers=given.servers,
        size=Size(users=given.users, posts=given.posts, requests=given.requests),
        online=not given.no_online,
        shadow=not given.no_shadow,
        kills=not given.no_kills,
    )


def short(folder: Path) -> Options:
    """Returns the smallest loop: two days at random, the second with a bug, one run of them, an hour with its model."""
    size = Size(users=50, posts=200, requests=10, candidates=12, shown=4)
    return Options(
        folder,
        days=0,
        hour_s=0.0,
        run_hour_s=0.0,
        seed=14,
        size=size,
        hours=3,
        servers=1,
        online=False,
        shadow=False,
        kills=False,
        first_bug_day=1,
    )


def main(arguments: list[str]) -> int:
    """Lives the week, and writes its report; returns 1 where a bug was not named."""
    given = options(arguments)
    report = {"commit": results.commit(), "arguments": arguments} | Week(given).run()
    results.write(given.folder / "loop.json", report)
    (given.folder / "loop.md").write_text(markdown(report))
    draw(report["rates"], given.folder / "loop.svg")
    print(markdown(report))
    return 0 if all(each["named by"] for each in report["bugs"]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
