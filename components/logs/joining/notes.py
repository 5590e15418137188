"""What a run with joined actions says of clocks that disagree."""

from sangam.components.reports.ingestion import EARLIER_ONLY, IngestionReport
from sangam.schemas.contracts.request_log import REQUEST_ID
from sangam.schemas.derived.sources import sources_of
from sangam.schemas.spec.data import Logs
from sangam.schemas.spec.sources import Source


def notes_on_clocks(logs: Logs, report: IngestionReport) -> list[str]:
    """Returns a note for each source with actions that came before their own request."""
    notes = []
    for name, source in sorted(sources_of(logs).items()):
        number = sum(split.joined.get(name, {}).get(EARLIER_ONLY, 0) for split in report.splits.values())
        if number and is_of_requests(source):
            notes.append(
                f"data.sources.{name}: {number:,} rows have only actions from before they were served, so that their "
                "labels are 0: the clock of a server is ahead of that of the actions; correct it"
            )
    return notes


def is_of_requests(source: Source) -> bool:
    """Returns whether rows have their actions by the id of a request: none can be from before it."""
    return source.kind == "actions" and REQUEST_ID in source.keys
