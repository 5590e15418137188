"""What an exported model of the demo's ranker says of itself, and what an export says of int8 rows."""

from typing import Any

from sangam.schemas.contracts.export import Description, ExportReport, TaskLoss
from sangam.schemas.loading import load_spec
from sangam.schemas.spec import digest
from tests.paths import SPECS


def sample_description(**changes: Any) -> Description:
    """Returns a description without columns; changes replace fields by name."""
    ranker = load_spec(SPECS / "short_video.yaml").ranker()
    described = Description(
        name=ranker.name,
        spec_digest=digest(ranker),
        ranker=ranker,
        tasks={},
        signatures=("rank", "serving_default"),
        form="stock",
        rows="float32",
        versions={"tensorflow": "2.16.2"},
        columns={},
        groups={},
    )
    return described.model_copy(update=changes)


def sample_report(losses: dict[str, TaskLoss]) -> ExportReport:
    """Returns the report of an export with int8 rows, from what they cost each task."""
    return ExportReport(form="stock", rows="int8", model_bytes=1, tasks=losses, seconds=1.0)
