"""Runs Debian's Prometheus, and asks it."""

import json
import math
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.paths import REPOSITORY
from tests.trainer_module.launch.cluster_job import free_port

GRAFANA = REPOSITORY / "infra" / "grafana"
_ROOT = "/sangam/root"
"""In the configuration that is shipped, for the user's own."""
_START_S = 30


def lacking() -> str:
    """Returns what a test with Prometheus lacks, in words; empty: nothing."""
    found = all(map(shutil.which, ("prometheus", "promtool")))
    return "" if found else "Prometheus (Debian: apt-get install --no-install-recommends prometheus)"


def require() -> None:
    """Skips a test where there is no Prometheus; with CI=true it fails."""
    if lacks := lacking():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"tests of metrics lack {lacks}")


def shipped_config(folder: Path, root: Path) -> Path:
    """Writes the configuration that is shipped: for another root, and ten times as often, as tests are short."""
    text = (GRAFANA / "prometheus.yml").read_text()
    for shipped, own in ((_ROOT, str(root)), ("scrape_interval: 5s", "scrape_interval: 500ms")):
        assert text.count(shipped) >= 1
        text = text.replace(shipped, own)
    shutil.copy(GRAFANA / "alerts.yml", folder)
    file = folder / "prometheus.yml"
    file.write_text(text)
    return file


def promtool(*arguments: str, told: str = "", action: str = "check") -> str:
    """Returns what `promtool check ...` prints; fails where it finds anything wrong."""
    command = ["promtool", action, *arguments]
    done = subprocess.run(command, input=told, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Prometheus:
    """A server that scrapes."""

    def __init__(self, address: str):
        """Takes its address, host:port."""
        self._api = f"http://{address}/api/v1"
        self._since = time.time()

    def _ask(self, path: str, **parameters: Any) -> Any:
        answer = httpx.get(f"{self._api}/{path}", params=parameters, timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def values(self, query: str) -> list[float]:
        """Returns all numbers that a query gives from the start until now, over all series; NaN left out."""
        now = time.time()
        found = self._ask("query_range", query=query, start=self._since, end=now, step=1)
        assert found["resultType"] == "matrix"
        numbers = [float(value) for series in found["result"] for _, value in series["values"]]
        return [number for number in numbers if not math.isnan(number)]

    def labels(self, label: str, series: str) -> list[str]:
        """Returns the values of a label of some series."""
        found: list[str] = self._ask(f"label/{label}/values", **{"match[]": series})
        return found

    def targets(self) -> dict[str, dict[str, Any]]:
        """Returns the targets of now, by instance."""
        return {target["labels"]["instance"]: target for target in self._ask("targets")["activeTargets"]}


@contextmanager
def running(config: Path, data: Path) -> Iterator[Prometheus]:
    """Runs Prometheus; ends it and checks that it ends."""
    require()
    address = f"127.0.0.1:{free_port()}"
    log = data.with_suffix(".log")
    command = [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={data}",
        f"--web.listen-address={address}",
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        given_up = time.monotonic() + _START_S
        while not _is_ready(address):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < given_up, log.read_text()
            time.sleep(0.1)
        yield Prometheus(address)
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _is_ready(address: str) -> bool:
    try:
        return httpx.get(f"http://{address}/-/ready", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def dashboard() -> dict[str, Any]:
    """Returns the dashboard for Grafana that is shipped."""
    found: dict[str, Any] = json.loads((GRAFANA / "sangam.json").read_text())
    return found


def queries(board: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the title of each panel with each of its queries."""
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
