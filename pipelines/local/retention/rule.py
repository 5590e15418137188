"""Decides which of a ranker's files stay in a root. Pure: it reads an inventory, not the disk."""

import datetime
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sangam.components.record.store import started_at
from sangam.components.registry.record import BlessedModel
from sangam.pipelines.local.outputs import Output
from sangam.pipelines.local.retention.inventory import CHECKPOINT, MODEL, Inventory, Version
from sangam.schemas.derived.days import parse_day, window
from sangam.schemas.spec import Spec
from sangam.schemas.spec.data import TRAIN, DayLogs
from sangam.schemas.spec.keep import Keep

Kind = Literal["run", "output", "model", "checkpoint", "version", "examples", "training", "trials", "log"]
TRANSFORM_GRAPH = "transform_graph"
"""Property of a checkpoint; repeated here because `sangam.components.registry.checkpoint` loads TFX."""


@dataclass(frozen=True)
class Decision:
    """The decision on one item.

    Attributes:
        kind: kind of the item: `output` of a step, other than a model or checkpoint; `version`, a pushed model;
            `examples` of a day; `training`, checkpoints of an unfinished one; `trials` of a search; `log` of a
            backfill.
        path: path of its folder or file.
        stays: whether it stays.
        why: first reason that applies.
        output: record in ML Metadata, for outputs.
    """

    kind: Kind
    path: Path
    stays: bool
    why: str
    output: Output | None = None


def decide(keep: Keep, there: Inventory, *, next_train_day: str = "") -> list[Decision]:
    """Returns the decisions on all of a ranker's items in a root.

    Args:
        keep: the rule; all items of a kind that it does not limit stay.
        there: files and records of the ranker.
        next_train_day: the newest train day of the next date: a checkpoint that has learned this day is no base of that
            date, and does not count. Empty for logs without days.
    """
    decided: list[Decision] = []
    if keep.models is not None:
        decided += _versions(keep.models, there)
    served = {decision.path.name for decision in decided if decision.kind == "version" and decision.stays}
    if keep.models is not None:
        decided += _models(keep.models, there, served)
    if keep.checkpoints is not None:
        decided += _checkpoints(keep.checkpoints, there, next_train_day)
        decided += _trainings(keep.checkpoints, there)
    if keep.runs is not None:
        gone = {decision.path for decision in decided if not decision.stays}
        outputs = list(_outputs(keep.runs, there, gone))
        decided += outputs
        gone |= {decision.path for decision in outputs if not decision.stays}
        decided += _runs(keep.runs, there)
        decided += _examples(there, gone)
        decided += _old(keep.runs, there)
    return decided


def newest_train_day(spec: Spec, dates: Sequence[str]) -> str:
    """Returns the newest train day of the date after these; empty for logs without days."""
    if not isinstance(spec.logs, DayLogs) or not dates:
        return ""
    following = parse_day(max(dates)) + datetime.timedelta(days=1)
    return window(spec.logs, following)[TRAIN][-1].isoformat()


def _versions(number: int, there: Inventory) -> Iterator[Decision]:
    for folder in there.versions:
        newest = [version.path for version in folder if not (version.is_withdrawn or version.is_online)][-number:]
        for version in folder:
            stays, why = _version(version, newest, number)
            yield Decision("version", version.path, stays, why)


def _version(version: Version, newest: Sequence[Path], number: int) -> tuple[bool, str]:
    if version.is_online:
        return True, "online training removes its own versions"
    if version.is_withdrawn:
        # A withdrawn version stays as long as it would be served, so that its files remain rejected.
        stays = not newest or int(version.path.name) > int(newest[0].name)
        return stays, f"withdrawn, and {'newer' if stays else 'older'} than a version that stays"
    stays = version.path in newest
    return stays, _place(0 if stays else number, number)


def _models(number: int, there: Inventory, served: set[str]) -> Iterator[Decision]:
    blessed = _newest_first(there.blessed)
    newest = {model.model_uri for model in _distinct(blessed, lambda model: model.model_uri)[:number]}
    reasons: list[tuple[str, set[str]]] = [
        (f"among the newest {number} blessed", newest),
        ("its version stays", {model.model_uri for model in there.blessed if _name(model) in served}),
        (
            "online training resumes from it",
            {each.model_uri for each in there.blessed if _name(each) in there.lineages},
        ),
    ]
    yield from _artifacts("model", MODEL, number, there, reasons)


def _checkpoints(number: int, there: Inventory, next_train_day: str) -> Iterator[Decision]:
    blessed = _distinct(_newest_first(there.blessed), lambda model: model.checkpoint_uri)
    too_new = [model for model in blessed if next_train_day and model.days and model.days[-1] >= next_train_day]
    bases = [model for model in blessed if model not in too_new][:number]
    reasons: list[tuple[str, set[str]]] = [
        (f"among the newest {number} blessed", {model.checkpoint_uri for model in bases}),
        ("the newest blessed checkpoint, for later dates", {model.checkpoint_uri for model in too_new}),
        ("the newest run started from it", {there.last_base}),
        ("online training resumes from it", {m.checkpoint_uri for m in there.blessed if _name(m) in there.lineages}),
    ]
    yield from _artifacts("checkpoint", CHECKPOINT, number, there, reasons)


def _artifacts(
    kind: Literal["model", "checkpoint"],
    output_of: tuple[str, str],
    number: int,
    there: Inventory,
    reasons: Sequence[tuple[str, set[str]]],
) -> Iterator[Decision]:
    """Yields decisions on outputs that are kept by number, independent of their runs."""
    found = [output for output in there.outputs if (output.step, output.key) == output_of]
    own = [output for output in found if output.runs & there.own_runs]
    # A refused model may still be blessed by hand.
    last = sorted(own, key=lambda output: max(output.runs), reverse=True)[:number]
    for output in own:
        why = next((reason for reason, uris in reasons if str(output.path) in uris), "")
        if not why and output.runs & there.foreign_runs:
            why = "another ranker's run has it"
        if not why and output in last:
            why = f"among the newest {number} trained"
        yield Decision(kind, output.path, bool(why), why or f"older than the newest {number}", output)


def _outputs(number: int, there: Inventory, gone: set[Path]) -> Iterator[Decision]:
    kept_runs = {path.name for path in there.runs[:number]} | there.foreign_runs | {there.last_good}
    checkpoints = [each for each in there.outputs if (each.step, each.key) == CHECKPOINT and each.path not in gone]
    graphs = {str(checkpoint.properties.get(TRANSFORM_GRAPH, "")) for checkpoint in checkpoints}
    for output in there.outputs:
        if (output.step, output.key) in (MODEL, CHECKPOINT) or not output.runs & there.own_runs:
            continue
        if output.runs & kept_runs:
            why = "of a run that stays"
        elif str(output.path) in graphs:
            why = "a checkpoint that stays needs it"
        elif any(Path(path) == output.path or output.path in Path(path).parents for path in there.searched):
            why = "a search under way reads it"
        else:
            why = ""
        yield Decision("output", output.path, bool(why), why or "of no run that stays", output)


def _runs(number: int, there: Inventory) -> Iterator[Decision]:
    for place, path in enumerate(there.runs):
        is_last_good = path.name == there.last_good and place >= number
        why = "the newest that has ended well" if is_last_good else _place(place, number)
        yield Decision("run", path, is_last_good or place < number, why)


def _place(place: int, number: int) -> str:
    return f"{'among' if place < number else 'older than'} the newest {number}"


def _examples(there: Inventory, gone: set[Path]) -> Iterator[Decision]:
    needed = {day for output, days in there.listed.items() if output not in gone for day in days}
    for day in there.days:
        why = "a run that stays reads them" if day in needed else "no run that stays reads them"
        yield Decision("examples", day, day in needed, why)


def _trainings(number: int, there: Inventory) -> Iterator[Decision]:
    for place, (path, may_run) in enumerate(there.trainings.items()):
        if may_run:
            yield Decision("training", path, True, "it may be under way, and the same command resumes it")
        else:
            yield Decision("training", path, place < number, f"given up, and {_place(place, number)}")


def _old(number: int, there: Inventory) -> Iterator[Decision]:
    """Yields decisions on items that belong to no run: they stay if newer than the oldest kept run."""
    if len(there.runs) <= number:
        return
    oldest = started_at(there.runs[number - 1].name)
    if oldest is None:
        return
    kinds: tuple[tuple[Kind, Mapping[Path, float]], ...] = (("trials", there.searches), ("log", there.logs))
    for kind, changes in kinds:
        for path, changed in changes.items():
            stays = changed >= oldest.timestamp()
            why = (
                "under way"
                if changed == math.inf
                else f"{'newer' if stays else 'older'} than the oldest of the newest {number} runs"
            )
            yield Decision(kind, path, stays, why)


def _newest_first(blessed: Iterable[BlessedModel]) -> list[BlessedModel]:
    """Returns the models that were not rolled back, in order of preference as baseline or base."""
    served = [model for model in blessed if not model.is_withdrawn]
    # The sort is stable: of models with equal days, the one blessed last stays last.
    return sorted(served, key=lambda model: model.days[-1:])[::-1]


def _distinct(models: Sequence[BlessedModel], uri: Callable[[BlessedModel], str]) -> list[BlessedModel]:
    """Returns the first model of each URI."""
    first: dict[str, BlessedModel] = {}
    for model in models:
        first.setdefault(uri(model), model)
    return [model for known, model in first.items() if known]


def _name(model: BlessedModel) -> str:
    return model.pushed.rpartition("/")[2]
