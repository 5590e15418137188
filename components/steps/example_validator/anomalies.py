"""Formats anomalies for people."""

from collections.abc import Mapping

from tensorflow_metadata.proto.v0 import anomalies_pb2

from sangam.schemas.errors import UserError


class DataAnomalies(UserError):
    """The data does not fit its schema; the text has one line for each anomaly."""


def anomaly_lines(anomalies_of: Mapping[str, anomalies_pb2.Anomalies]) -> list[str]:
    """Returns a line for each anomaly of each split, with split, column and problem."""
    lines = []
    for split, anomalies in anomalies_of.items():
        for column, info in sorted(anomalies.anomaly_info.items()):
            reasons = info.reason or [info]
            for reason in reasons:
                lines.append(f"split '{split}': column '{column}': {_description(reason)}; {_ADVICE}")
        if anomalies.HasField("dataset_anomaly_info"):
            lines.append(f"split '{split}': {_description(anomalies.dataset_anomaly_info)}; {_ADVICE}")
        if anomalies.data_missing:
            lines.append(f"split '{split}': has no data (got no rows); supply rows")
    return lines


_ADVICE = "correct the logs, or adapt the spec (`missing:` under a feature allows missing values)"


def _description(info: anomalies_pb2.AnomalyInfo) -> str:
    # The short description is misleading: it is "Column dropped" even for a column with a single null.
    detail = (info.description or info.short_description).rstrip(".")
    return f"does not fit its schema (got: {detail})"
