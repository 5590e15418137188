"""Drift of what a real server is asked: none of the training's rows, and of others by the names of their columns."""

import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.components.drift.sample_statistics import requests
from tests.components.server.compared_models import put_compared
from tests.components.server.sample_models import put
from tests.components.server.server_process import TIMEOUT_S, Running, b64, running, wait_until

pytestmark = pytest.mark.slow

_HOUR_S, _TEST_S = 3600, 60
_SAMPLE = re.compile(r"^(sangam_\w+){(.*)} (\S+)$", re.MULTILINE)


@pytest.fixture(autouse=True)
def _within_an_hour() -> None:
    """Waits for the next hour where this one ends during the test, whose counts would begin anew."""
    if (left_s := _HOUR_S - time.time() % _HOUR_S) < _TEST_S:
        time.sleep(left_s)


def told(server: Running, name: str) -> dict[tuple[str, ...], float]:
    """Returns the samples of the running hour, by the values of their other labels."""
    found = {}
    for metric, labels, value in _SAMPLE.findall(server.get("/metrics").text):
        values = re.findall(r'"(.*?)"', labels)
        if metric == name and "last" not in values:
            found[tuple(each for each in values if each != "running")] = float(value)
    return found


def over(server: Running) -> list[tuple[str, ...]]:
    """Returns the columns and measures beyond their bounds."""
    bounds = told(server, "sangam_drift_bound")
    return sorted(key for key, value in told(server, "sangam_drift").items() if value > bounds.get(key, 1.0))


def compared(server: Running, columns: dict[str, Any], rows: int) -> None:
    """Asks until so many rows are compared, and none more."""

    def rows_now() -> float:
        server.client.predict("rank", columns, TIMEOUT_S)
        return told(server, "sangam_drift_rows")[()]

    wait_until(lambda: rows_now() >= rows, f"{rows} rows are compared")


def examples() -> list[dict[str, str]]:
    """Returns the rows as serialized tf.Examples in JSON."""
    of = requests()
    encoded = []
    for row in range(64):
        example = tf.train.Example()
        fields = example.features.feature
        fields["user"].bytes_list.value.append(of["user"][row])
        fields["post id"].bytes_list.value.append(of["post"][row])
        if row % 16:
            fields["price"].float_list.value.append(of["price"][row])
        fields["topics"].int64_list.value.extend(of["topics"][row, : of["topics_length"][row]])
        encoded.append(b64(example.SerializeToString()))
    return encoded


def test_what_is_asked_is_compared_with_training_until_another_version_is_served(
    models: dict[int, Path], scratch: Path
) -> None:
    versions = scratch / "versions"
    put_compared(models[1], versions, 1)
    with running(versions, scratch) as server:
        assert told(server, "sangam_drift_rows") == {(): 0.0}
        assert told(server, "sangam_drift") == {}
        assert server.post({"inputs": {"examples": examples()}}).status_code == 200
        wait_until(lambda: told(server, "sangam_drift_rows") == {(): 64.0}, "a request for serving_default is compared")
        assert max(told(server, "sangam_drift").values()) < 1e-6
        compared(server, requests(), 192)
        assert max(told(server, "sangam_drift").values()) < 1e-6
        assert told(server, "sangam_drift_columns") == {(): 4.0}
        assert told(server, "sangam_live_missing_share") == {
            ("user",): 0.0, ("post id",): 0.0, ("price",): 1 / 16, ("topics",): 1 / 4
        }  # fmt: skip
        assert told(server, "sangam_trained_missing_share") == told(server, "sangam_live_missing_share")

        put_compared(models[2], versions, 2)
        wait_until(lambda: server.served().endswith(" 2"), "version 2 is served")
        wait_until(lambda: told(server, "sangam_drift_rows") == {(): 0.0}, "the comparison begins anew")
        other = requests()
        other["price"] *= 1000
        other["topics_length"] = np.zeros_like(other["topics_length"])
        other["post"] = np.array([b"other-%d" % row for row in range(64)], object)
        compared(server, other, 192)
        # All that lists have in common is that there are none.
        assert over(server) == [("post id", "l_infinity"), ("price", "jensen_shannon"), ("topics", "missing_share")]
        assert told(server, "sangam_drift_columns_over") == {(): 3.0}
        assert told(server, "sangam_drift")["post id", "rest_share"] == 1.0

        put(models[3], versions, 3)
        wait_until(lambda: server.served().endswith(" 3"), "version 3 is served")
        wait_until(lambda: told(server, "sangam_drift_rows") == {}, "a version without a reference is not compared")
        server.client.predict("rank", requests(), TIMEOUT_S)
        assert told(server, "sangam_drift") == {}
