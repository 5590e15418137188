"""The alerts that are shipped, as Prometheus itself judges them over made-up series."""

import json
import shutil
from pathlib import Path

from tests.prometheus import server as prometheus

_OF = 'ranker="feed",instance="server"'


def test_a_column_beyond_its_bound_is_alerted_by_name_once_there_are_rows_enough(tmp_path: Path) -> None:
    prometheus.require()
    shutil.copy(prometheus.GRAFANA / "alerts.yml", tmp_path)
    series = {
        f'sangam_drift{{{_OF},column="price",measure="jensen_shannon",hour="running"}}': "0.3x20",
        f'sangam_drift{{{_OF},column="price",measure="jensen_shannon",hour="last"}}': "0.3x20",
        f'sangam_drift{{{_OF},column="price",measure="missing_share",hour="running"}}': "0.3x20",
        f'sangam_drift{{{_OF},column="user",measure="l_infinity",hour="running"}}': "0.01x20",
        f'sangam_drift{{{_OF},column="user",measure="rest_share",hour="running"}}': "1x20",
        f'sangam_drift_bound{{{_OF},column="price",measure="jensen_shannon"}}': "0.1x20",
        f'sangam_drift_bound{{{_OF},column="price",measure="missing_share"}}': "0.4x20",
        f'sangam_drift_bound{{{_OF},column="user",measure="l_infinity"}}': "0.02x20",
        f'sangam_drift_rows{{{_OF},hour="running"}}': "5000x20",
        f'sangam_drift_rows{{{_OF},hour="last"}}': "999x20",
    }
    alert = {
        "exp_labels": {
            "severity": "warning", "ranker": "feed", "instance": "server", "hour": "running",
            "column": "price", "measure": "jensen_shannon",
        },
        "exp_annotations": {
            "summary": "feed: column price of the requests is 0.3 from the training's (jensen_shannon), further than "
            "the spec's drift allows"
        },
    }  # fmt: skip
    case = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [
            {"eval_time": "2m", "alertname": "SangamDrift", "exp_alerts": []},
            {"eval_time": "10m", "alertname": "SangamDrift", "exp_alerts": [alert]},
        ],
    }
    (tmp_path / "test.yml").write_text(json.dumps({"rule_files": ["alerts.yml"], "tests": [case]}))
    assert "SUCCESS" in prometheus.promtool("rules", str(tmp_path / "test.yml"), action="test")
