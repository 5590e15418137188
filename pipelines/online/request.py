"""The request for online training, checked before anything is started."""

from dataclasses import dataclass
from pathlib import Path

from sangam.pipelines.online.base import OnlineBase, find
from sangam.schemas.contracts.joining_job import Kafka
from sangam.schemas.contracts.root import Root
from sangam.schemas.derived.online import trainings
from sangam.schemas.derived.plan import refuse_unfit
from sangam.schemas.errors import UserError
from sangam.schemas.spec import Spec
from sangam.schemas.spec.online import Online
from sangam.trainer_module.launch.memory import available_bytes


@dataclass(frozen=True)
class OnlineRequest:
    """Online training of one spec.

    Attributes:
        spec: spec of the ranker.
        settings: section `online` of the spec.
        root: root of the daily runs.
        base: base that training starts from.
        source: source of the rows: a folder, or topics.
        follows: whether to switch to newly blessed models.
    """

    spec: Spec
    settings: Online
    root: Root
    base: OnlineBase
    source: Path | Kafka
    follows: bool


def check_request(spec: Spec, root: Path, base: str, source: Path | Kafka, *, follows: bool) -> OnlineRequest:
    """Checks and returns the request.

    Raises:
        UserError: the spec has no online section, or there is no base.
    """
    if spec.online is None:
        raise UserError(f"online: is missing in the spec of '{spec.name}' (got no section); declare it: online: {{}}")
    refuse_unfit(spec, available_bytes(), ranks_here=trainings(spec) * spec.cluster.ranks)
    folder = root.resolve()
    if not folder.is_dir():
        raise UserError(f"--root: no such folder (got {folder}); give the root of the daily runs of '{spec.name}'")
    layout = Root(str(folder))
    return OnlineRequest(spec, spec.online, layout, find(layout, spec.name, base), source, follows)
