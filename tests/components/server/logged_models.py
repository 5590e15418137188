"""A version whose requests are logged, and the columns that training reads of the log."""

import json
import shutil
from pathlib import Path

from sangam.schemas.contracts.export import ServedColumn, ServedTask
from sangam.schemas.parts.columns import ColumnType
from sangam.schemas.spec.serving import RequestLog
from tests.components.request_log.sample_requests import read_of
from tests.components.server.sample_models import NAME, add_manifest, put
from tests.schemas.sample_exports import sample_description

COLUMNS = {
    "user": ServedColumn(type="string", is_list=False, input="user"),
    "post id": ServedColumn(type="string", is_list=False, input="post"),
    "price": ServedColumn(type="float", is_list=False, input="price"),
    "topics": ServedColumn(type="int", is_list=True, input="topics"),
}
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
_OWN: dict[str, ColumnType] = dict(
    served_at="int", served_version="int", served_position="int", served_propensity="float", served_score_like="float"
)
READ = read_of(COLUMNS, shown_at="int", **_OWN)


def put_logged(model: Path, versions: Path, number: int, settings: RequestLog) -> None:
    """Adds a version whose requests are logged."""
    described = versions.parent / f"described-{number}"
    shutil.copytree(model, described)
    (described / "assets.extra").mkdir(exist_ok=True)
    (described / "assets.extra/ranker.json").write_text(DESCRIPTION.text())
    folder = put(described, versions, number, with_manifest=False)
    add_manifest(folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | {"request_log": settings.model_dump(mode="json")}))


def sealed(log: Path) -> list[Path]:
    """Returns the sealed files, in their order."""
    return sorted(log.glob("20*/*/*.parquet"))
