"""A version whose requests are logged, and the rows that training reads of the log."""

import json
import shutil
from pathlib import Path
from typing import Any

from sangam.components.logs.readers import formats
from sangam.schemas.contracts.export import ServedTask
from sangam.schemas.parts.columns import Column
from sangam.schemas.spec.data import DayLogs, ServedLogs
from sangam.schemas.spec.serving import InShadow, RequestLog
from tests.components.server.sample_columns import COLUMNS
from tests.components.server.sample_models import NAME, add_manifest
from tests.schemas.sample_exports import sample_description

EVENT_TIME = "shown_at"
_SAMPLE = sample_description()
DESCRIPTION = _SAMPLE.model_copy(
    update=dict(
        name=NAME,
        ranker=_SAMPLE.ranker.model_copy(update={"event_time": EVENT_TIME}),
        columns=COLUMNS,
        tasks={task: ServedTask(kind="binary", label=task) for task in ("like", "watch")},
    )
)
READ = (
    *(Column(name, column.type, is_list=column.is_list) for name, column in COLUMNS.items()),
    Column("request_id", "string"),
    Column("served_at", "int"),
    Column(EVENT_TIME, "int"),
    Column("served_version", "int"),
    Column("served_position", "int"),
    Column("served_propensity", "float"),
    Column("served_score_like", "float"),
    Column("shadow_version", "int"),
    Column("shadow_score_like", "float"),
)
LOGS: DayLogs = ServedLogs(kind="served", log=".", train_days=1).parts


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


def rows_of(log: Path) -> list[dict[str, Any]]:
    """Returns the rows of all sealed files as ingestion reads them, in the order of the files."""
    rows: list[dict[str, Any]] = []
    for file in sealed(log):
        with file.open("rb") as opened:
            for batch in formats.read(LOGS, opened, str(file), READ):
                rows += batch.batch.to_pylist()
    return rows
