"""A version whose requests are logged, and the columns that training reads of the log."""

import json
import shutil
from pathlib import Path

from sangam.schemas.contracts.export import ServedGroup, ServedTask
from sangam.schemas.parts.columns import ColumnType
from sangam.schemas.spec.serving import InShadow, RequestLog
from tests.components.request_log.sample_requests import read_of
from tests.components.server.sample_columns import COLUMNS
from tests.components.server.sample_models import NAME, add_manifest
from tests.schemas.sample_exports import sample_description

EVENT_TIME, GROUP = "shown_at", "words"
_SAMPLE = sample_description()
DESCRIPTION = _SAMPLE.model_copy(
    update=dict(
        name=NAME,
        ranker=_SAMPLE.ranker.model_copy(update={"event_time": EVENT_TIME}),
        columns=COLUMNS,
        groups={GROUP: ServedGroup(dim=1, tables={GROUP: 1})},
        tasks={task: ServedTask(kind="binary", label=task) for task in ("like", "watch")},
    )
)
_OWN: dict[str, ColumnType] = dict(
    served_at="int",
    served_version="int",
    served_position="int",
    served_propensity="float",
    served_score_like="float",
    shadow_version="int",
    shadow_score_like="float",
)
READ = read_of(COLUMNS, shown_at="int", **_OWN)


def put_logged(
    model: Path, versions: Path, number: int, settings: RequestLog | None, shadow: InShadow | None = None
) -> Path:
    """Adds a version whose requests are logged, as the pusher does, and returns it.

    Args:
        model: a SavedModel.
        versions: folder of versions, or of those in the shadow.
        number: of the version.
        settings: of the log.
        shadow: what it scores in the shadow.
    """
    aside = versions / f".tmp-{number}"
    shutil.copytree(model, aside)
    (aside / "assets.extra").mkdir(exist_ok=True)
    (aside / "assets.extra/ranker.json").write_text(DESCRIPTION.text())
    add_manifest(aside)
    manifest = json.loads((aside / "manifest.json").read_text())
    for name, declared in (("request_log", settings), ("shadow", shadow)):
        manifest[name] = declared.model_dump(mode="json") if declared else None
    (aside / "manifest.json").write_text(json.dumps(manifest))
    return aside.rename(versions / str(number))


def sealed(log: Path) -> list[Path]:
    """Returns the sealed files, in their order."""
    return sorted(log.glob("20*/*/*.parquet"))
