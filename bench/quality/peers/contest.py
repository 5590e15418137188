"""The sets on which an untouched draft meets its peers."""

import datetime
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.quality.experiments import SHARED_DATA, WORK
from bench.quality.sets import complete_journey, movielens
from sangam.pipelines.synthetic import generate

_PACKAGES = WORK / "packages"


@dataclass(frozen=True)
class Contest:
    """One set.

    Attributes:
        name: folder of its data and results.
        title: its name in docs/quality.md.
        labels: columns to predict.
        date: date of the run; empty for splits.
        make: writes the logs into a folder.
    """

    name: str
    title: str
    labels: tuple[str, ...]
    date: str
    make: Callable[[Path], None]

    def data(self) -> Path:
        """Returns the folder of the logs, made on the first call."""
        folder = WORK / "sets" / self.name
        if not folder.exists():
            making = folder.with_name(f"{folder.name}.making")
            shutil.rmtree(making, ignore_errors=True)
            making.mkdir(parents=True)
            self.make(making)
            making.rename(folder)
        return folder


def _newest_days(source: Path, first: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        for day in sorted(source.iterdir()):
            if day.name >= first:
                shutil.copytree(day, folder / day.name)

    return make


def _splits(source: Path) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        shutil.copytree(source, folder, dirs_exist_ok=True)

    return make


def _feed(folder: Path) -> None:
    generate(
        folder,
        first_day=datetime.date(2024, 3, 1),
        num_days=7,
        rows_per_day=20_000,
        num_users=2_000,
        num_posts=5_000,
        seed=1,
    )


CONTESTS = (
    Contest(
        "online_retail",
        "Online Retail, from September on",
        ("reorder", "bulk", "high_value"),
        "2011-12-09",
        _newest_days(SHARED_DATA / "online_retail" / "lines", "2011-09-01"),
    ),
    Contest(
        "census",
        "Census, all columns",
        ("income", "never_married"),
        "",
        _splits(SHARED_DATA / "census_income" / "all_features"),
    ),
    Contest("feed", "feed of `sangam generate`", ("like", "share", "download", "long_watch"), "2024-03-07", _feed),
    Contest(
        "movielens",
        "MovieLens 100K",
        ("liked", "loved"),
        "1998-04-22",
        lambda folder: movielens.make(folder, _PACKAGES),
    ),
    Contest(
        "complete_journey",
        "The Complete Journey, 40 days",
        ("reorder", "bulk", "discounted"),
        str(complete_journey.LAST_DAY),
        lambda folder: complete_journey.make(folder, _PACKAGES),
    ),
)
