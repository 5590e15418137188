"""A made-up ranker that runs every day: what it has after each day, as an inventory."""

import datetime
from dataclasses import dataclass, field, replace
from pathlib import Path

from sangam.components.registry.record import BlessedModel
from sangam.pipelines.local.outputs import Output
from sangam.pipelines.local.retention.inventory import Inventory, Version
from sangam.pipelines.local.retention.rule import Decision
from tests.components.registry.sample_blessings import blessing

ROOT = Path("/r")
FIRST = datetime.date(2024, 3, 1)
_OUTPUTS = (
    ("example_gen", "examples"),
    ("transform", "transform_graph"),
    ("trainer", "model"),
    ("trainer", "checkpoint"),
)


def day(number: int) -> str:
    """Returns a day from 0."""
    return (FIRST + datetime.timedelta(days=number)).isoformat()


def run(number: int) -> str:
    """Returns the run of a day."""
    return f"{day(number).replace('-', '')}T020000-aaaaaaaa"


def output(step: str, key: str, number: int) -> Path:
    """Returns the folder of an output of a day's run."""
    return ROOT / "artifacts" / step / key / str(number)


def model(number: int, days_behind: int = 1, is_withdrawn: bool = False) -> BlessedModel:
    """Returns the blessing of a day's model, which has learned until so many days before."""
    return blessing(
        str(output("trainer", "model", number)),
        checkpoint_uri=str(output("trainer", "checkpoint", number)),
        days=(day(number - days_behind),),
        transform_graph_uri=str(output("transform", "transform_graph", number)),
        pushed=f"serving/tiny/{version(number)}",
        is_withdrawn=is_withdrawn,
    )


def version(number: int) -> str:
    """Returns the version of a day."""
    return f"{day(number).replace('-', '')}001"


def outputs(number: int) -> tuple[Output, ...]:
    """Returns the outputs of a day's run."""
    graph = {"transform_graph": str(output("transform", "transform_graph", number))}
    return tuple(
        Output(10 * number + place, output(step, key, number), step, key, frozenset({run(number)}), properties=graph)
        for place, (step, key) in enumerate(_OUTPUTS)
    )


@dataclass
class SampleRoot:
    """A root that grows by a day at a time; each run reads the three days up to its own.

    Attributes:
        there: what the ranker has.
        refused: days whose model the gates refuse.
    """

    there: Inventory = field(default_factory=lambda: Inventory("tiny"))
    refused: frozenset[int] = frozenset()

    def add(self, number: int) -> "SampleRoot":
        """Runs a day."""
        there, path, folder = self.there, ROOT / "runs" / run(number), ROOT / "serving" / "tiny"
        new_days = {ROOT / "examples" / day(each) for each in range(number - 2, number + 1)}
        versions = there.versions[0] if there.versions else ()
        is_blessed = number not in self.refused
        self.there = replace(
            there,
            runs=(path, *there.runs),
            dates=(day(number), *there.dates),
            own_runs=there.own_runs | {path.name},
            outputs=(*there.outputs, *outputs(number)),
            listed={**there.listed, output("example_gen", "examples", number): frozenset(new_days)},
            blessed=(*there.blessed, model(number)) if is_blessed else there.blessed,
            versions=((*versions, Version(folder / version(number))) if is_blessed else versions,),
            days=tuple(sorted({*there.days, *new_days})),
        )
        return self

    def apply(self, decided: list[Decision]) -> None:
        """Removes what goes."""
        gone = {decision.path for decision in decided if not decision.stays}
        there = self.there
        self.there = replace(
            there,
            runs=tuple(path for path in there.runs if path not in gone),
            outputs=tuple(each for each in there.outputs if each.path not in gone),
            listed={path: days for path, days in there.listed.items() if path not in gone},
            versions=tuple(tuple(each for each in folder if each.path not in gone) for folder in there.versions),
            days=tuple(path for path in there.days if path not in gone),
        )


def grown(days: int, refused: frozenset[int] = frozenset()) -> SampleRoot:
    """Returns a root after so many days."""
    root = SampleRoot(refused=refused)
    for number in range(days):
        root.add(number)
    return root


def left(decided: list[Decision], kind: str) -> list[str]:
    """Returns the last part of the paths of what stays of a kind."""
    return [decision.path.name for decision in decided if decision.kind == kind and decision.stays]
