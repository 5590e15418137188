"""The base of online training: a blessed model and the time range that it has learned."""

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sangam.components.registry.record import BlessedModel
from sangam.schemas.contracts.history import history_beside
from sangam.schemas.contracts.root import Root
from sangam.schemas.errors import UserError

LATEST = "latest"
_DAY_S = 24 * 60 * 60


@dataclass(frozen=True)
class OnlineBase:
    """The blessed model that online training starts from.

    Attributes:
        model: record of the model.
        version: folder of the pushed version, for one in the shadow the one that it will have; its name is the
            lineage's name.
        learned_until: last second, since 1970, of the rows in the model, or counted in its tables of counts and rates:
            such a row would read itself there. None for logs without days.
    """

    model: BlessedModel
    version: Path
    learned_until: int | None

    @property
    def lineage(self) -> str:
        """The name of the lineage that starts here."""
        return self.version.name


class Bases(NamedTuple):
    """The newest blessed and pushed models of a ranker.

    Attributes:
        live: the newest one that is neither withdrawn nor in the shadow; None without one.
        waiting: the newest one in the shadow.
    """

    live: OnlineBase | None
    waiting: OnlineBase | None


def bases(root: Root, name: str) -> Bases:
    """Returns the models that online training may start from.

    Raises:
        UserError: a record cannot be read.
    """
    from sangam.components.registry.blessed import read_all

    models = [model for model in read_all(root.blessed(name)) if model.pushed and model.checkpoint_uri]
    # The sort is stable: of models with equal days, the one blessed last stays last.
    ordered = sorted(models, key=lambda model: model.days[-1:])
    accepted = [model for model in ordered if model.is_accepted]
    waiting = [model for model in ordered if model.is_waiting and not model.is_withdrawn]
    return Bases(*(_base(root, each[-1]) if each else None for each in (accepted, waiting)))


def find(root: Root, name: str, base: str) -> OnlineBase:
    """Returns the base that `--base` names.

    Raises:
        UserError: there is no such base.
    """
    if base == LATEST:
        found = bases(root, name).live
        if found is None:
            raise UserError(
                f"--base: no blessed and pushed model of '{name}' (got {root.uri}); run the daily pipeline first: "
                "sangam run"
            )
        return found
    from sangam.components.registry.blessed import read_all

    version = _version_of_run(root, base)
    for model in read_all(root.blessed(name)):
        if model.pushed and Path(model.pushed).name == version and model.checkpoint_uri:
            if model.is_waiting:
                raise UserError(
                    f"--base: version {version} waits in the shadow (got {base}); promote it with sangam promote, or "
                    "start from another run"
                )
            if model.is_withdrawn:
                raise UserError(
                    f"--base: version {version} was withdrawn (got {base}); restore it with sangam rollback --restore, "
                    "or start from another run"
                )
            return _base(root, model)
    raise UserError(f"--base: the run's model is not blessed (got {base}); give another run, or latest")


def _version_of_run(root: Root, run: str) -> str:
    from sangam.components.record.store import read_run

    if not root.run(run).summary.is_file():
        known = ", ".join(sorted(folder.path.name for folder in root.run_folders())[-5:]) or "none"
        raise UserError(f"--base: no such run in {root.runs} (got {run}); give latest, or one of: {known}")
    record = read_run(root.run(run)).record
    if record is None or record.pushed is None:
        raise UserError(f"--base: the run has pushed no model (got {run}); give a run that did, or latest")
    return record.pushed.version


def _base(root: Root, model: BlessedModel) -> OnlineBase:
    until = _start_of(model.days[-1]) + _DAY_S - 1 if model.days else None
    if until is not None and (history := history_beside(model.transform_graph_uri)):
        # Validation days without a refit are counted, not learned.
        until = max(until, _start_of(history.as_of) - 1)
    return OnlineBase(model, root.path / model.pushed, until)


def _start_of(day: str) -> int:
    """Returns the first second of a day (UTC), since 1970."""
    return int(datetime.datetime.fromisoformat(day).replace(tzinfo=datetime.UTC).timestamp())
