"""The metrics of tables, in the process that holds their rows: a rank, or a parameter server."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge

_COUNTED = {
    "admitted": ("sangam_trainer_rows_admitted", "Rows created for new ids."),
    "rejected": ("sangam_trainer_keys_rejected", "Unique ids of a step that were left without a row."),
    "evicted": ("sangam_trainer_rows_evicted", "Rows removed because the table is full."),
    "expired": ("sangam_trainer_rows_expired", "Rows removed because of their age."),
}


class TableMetrics:
    """Metrics of the rows that one process holds; their sum over the processes describes the table."""

    def __init__(self, registry: CollectorRegistry):
        """Adds the metrics to a registry."""
        self._rows = Gauge("sangam_trainer_rows", "Rows of a table in this process.", ("table",), registry=registry)
        self._counters = {
            key: Counter(name, text, ("table",), registry=registry) for key, (name, text) in _COUNTED.items()
        }
        self._last: dict[tuple[str, str], int] = {}

    def set(self, tables: Mapping[str, Mapping[str, int]]) -> None:
        """Sets `rows`, and updates the counters, by table."""
        for table, counts in tables.items():
            self._rows.labels(table).set(counts["rows"])
            for key, counter in self._counters.items():
                # Reloaded tables, as after a return to the best epoch, count from 0.
                before = self._last.get((table, key), 0)
                counter.labels(table).inc(counts[key] - before if counts[key] >= before else counts[key])
                self._last[table, key] = counts[key]
