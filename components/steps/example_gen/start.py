"""Finds the base of an incremental training, and hence the days that remain to be read."""

import datetime

from pydantic import BaseModel, ConfigDict

from sangam.components.logs.files.listing import Storage
from sangam.components.logs.files.resolve import days_of_window, days_with_files
from sangam.components.logs.request import Request
from sangam.components.registry.base import INCREMENTAL, Base, base_for
from sangam.components.registry.blessed import read_all
from sangam.components.registry.checkpoint import exists as checkpoint_exists
from sangam.schemas.contracts.root import Root
from sangam.schemas.derived.days import Day, parse_day
from sangam.schemas.spec.data import TRAIN, DayLogs


class Start(BaseModel):
    """The start of a training.

    Attributes:
        base: the checkpoint to start from; None: training starts from scratch.
        notes: notes for the user, on the choice of the base.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    base: Base | None = None
    notes: tuple[str, ...] = ()

    @property
    def after(self) -> str:
        """The last day of the base, after which training continues; empty without a base."""
        return self.base.last_day if self.base else ""


def starting_point(request: Request, storage: Storage) -> Start:
    """Returns the driver's choice, or chooses if no driver runs, as on Kubeflow Pipelines.

    Raises:
        UserError: for an invalid date or an unreadable record of the registry.
    """
    if request.mode != INCREMENTAL or not isinstance(request.logs, DayLogs):
        return Start()
    if request.start:
        return Start.model_validate_json(request.start)
    days = days_of_window(request.logs, request.date)[TRAIN]
    # A base trained on the newest day with logs would leave nothing to train on.
    present = days_with_files(request.logs, days, request.data_root, storage)
    if not present:
        return Start()  # Listing the files reports missing days.
    newest = present[-1]
    blessings = read_all(Root(request.pipeline_root).blessed(request.name))
    choice = base_for(blessings, before=newest.isoformat(), exists=checkpoint_exists)
    if choice.base is None:
        return Start(notes=choice.notes)
    notes = (*choice.notes, *_between(choice.base, days[0]), *_late(choice.base, days, present))
    return Start(base=choice.base, notes=notes)


def _between(base: Base, first: Day) -> list[str]:
    """Returns a note if there are days after the base and before the window."""
    follows = parse_day(base.last_day) + datetime.timedelta(days=1)
    if follows >= first:
        return []
    before = first - datetime.timedelta(days=1)
    return [
        f"{follows} to {before} were not trained on: they are between the last day of the base and the window "
        "(data.train_days)"
    ]


def _late(base: Base, days: list[Day], present: list[Day]) -> list[str]:
    """Returns a note if logs have arrived for days that earlier trainings skipped."""
    skipped = [day for day in days if base.days[0] < day.isoformat() < base.last_day]
    untrained = [day for day in skipped if day.isoformat() not in base.days]
    late = [str(day) for day in untrained if day in present]
    if not late:
        return []
    return [f"{', '.join(late)} had no rows at the time and are not trained on now; mode: full trains on them"]
