"""Anomalies as people read them."""

from collections.abc import Mapping

from tensorflow_metadata.proto.v0 import anomalies_pb2

from schemas.errors import UserError


class DataAnomalies(UserError):
    """Data that does not fit its schema: one line for each anomaly."""


def found(anomalies_of: Mapping[str, anomalies_pb2.Anomalies]) -> list[str]:
    """Returns a line for each anomaly of each split, naming split, column and what is wrong."""
    lines = []
    for split, anomalies in anomalies_of.items():
        for column, info in sorted(anomalies.anomaly_info.items()):
            reasons = info.reason or [info]
            for reason in reasons:
                lines.append(f"split '{split}': column '{column}': {_stated(reason)}; {_ADVICE}")
        if anomalies.HasField("dataset_anomaly_info"):
            lines.append(f"split '{split}': {_stated(anomalies.dataset_anomaly_info)}; {_ADVICE}")
        if anomalies.data_missing:
            lines.append(f"split '{split}': no data; bring rows")
    return lines


_ADVICE = "mend the logs, or declare what they are like (`missing:` under a feature allows missing values)"


def _stated(info: anomalies_pb2.AnomalyInfo) -> str:
    # The short description misleads: "Column dropped" is also said of a column with a single null.
    detail = (info.description or info.short_description).rstrip(".")
    return f"does not fit its schema (got: {detail})"
