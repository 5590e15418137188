"""docs/monitoring.md has every metric there is, and no other; the dashboard asks for these alone."""

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from tests.golden_files import UPDATE
from tests.paths import REPOSITORY

pytestmark = pytest.mark.slow
pytest.importorskip("tensorflow")

_DOC = REPOSITORY / "docs" / "monitoring.md"
_BOARD = REPOSITORY / "infra" / "grafana" / "sangam.json"
_BOUNDED = {
    "api", "cause", "code", "column", "hour", "measure", "method", "metric", "name", "reason", "signature", "table",
    "task", "version", "weights",
}  # fmt: skip
"""Values are names of the spec or of the API, or one of a few; `version`: of those that are there; `column`: at most 50
at a time."""
_OF_PROCESSES = {"process_resident_memory_bytes", "process_cpu_seconds_total", "process_start_time_seconds"}


def _registries() -> Iterator[tuple[str, Any]]:
    """Yields what each kind of process serves."""
    from prometheus_client import CollectorRegistry

    from sangam.components.server import drift_metrics
    from sangam.components.server.log_metrics import LogMetrics
    from sangam.components.server.metrics import Metrics
    from sangam.components.server.shadow_metrics import ShadowMetrics
    from sangam.trainer_module.launch.data_service_metrics import DispatcherMetrics, WorkerMetrics
    from sangam.trainer_module.monitoring.training import OnlineMetrics, ServerMetrics, TrainingMetrics

    yield "Ranks; `sangam_trainer_rows` and what follows it also parameter servers", TrainingMetrics(["t"]).registry
    served, online = CollectorRegistry(), CollectorRegistry()
    ServerMetrics(served)
    yield "Ranks whose rows are on parameter servers", served
    OnlineMetrics(online)
    yield "Rank 0 of an online training", online
    yield "Dispatcher of the input service", DispatcherMetrics().registry
    yield "Worker of the input service", WorkerMetrics().registry
    yield "Server", Metrics().registry
    log = CollectorRegistry()
    LogMetrics(log, Counter)
    ShadowMetrics(log)
    yield "Server with `--log`", log
    drift = CollectorRegistry()
    drift_metrics.register(drift, drift_metrics.Told)
    yield "Server of a version with `drift_reference.json`", drift


def _metrics(registry: Any) -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    """Yields name, type, labels and meaning of the metrics of our own."""
    for collector in registry._collector_to_names:
        for family in collector.describe() if hasattr(collector, "describe") else ():
            if family.name.startswith("sangam_"):
                name = f"{family.name}_total" if family.type == "counter" else family.name
                yield name, family.type, tuple(getattr(collector, "_labelnames", ())), family.documentation


def _table(metrics: Iterable[tuple[str, str, tuple[str, ...], str]]) -> list[str]:
    lines = ["| metric | type | labels | meaning |", "|---|---|---|---|"]
    for name, kind, labels, meaning in metrics:
        shown = ", ".join(f"`{label}`" for label in labels)
        lines.append(f"| `{name}` | {kind} | {shown} | {meaning} |")
    return lines


def test_golden_the_page_lists_every_metric_and_no_other() -> None:
    written = "\n".join(
        "\n".join([f"**{title}**", "", *_table(_metrics(registry)), ""]) for title, registry in _registries()
    )
    before, begins, rest = re.split(r"(<!-- Written by .*? -->\n)", _DOC.read_text())
    known, ends, after = rest.partition("<!-- end -->")
    if os.environ.get(UPDATE) == "1":
        _DOC.write_text(before + begins + "\n" + written + "\n" + ends + after)
        return
    assert known.strip() == written.strip(), f"metrics have changed; run this test with {UPDATE}=1"


def test_every_label_has_few_values() -> None:
    labels = {label for _, registry in _registries() for *_, names, _ in _metrics(registry) for label in names}
    assert labels == _BOUNDED


def test_every_metric_says_what_it_is() -> None:
    texts = [meaning for _, registry in _registries() for *_, meaning in _metrics(registry)]
    assert len(texts) >= 50
    assert not [text for text in texts if not text.endswith(".")]


@pytest.fixture(scope="module")
def board() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_BOARD.read_text())
    return found


def test_the_dashboard_asks_for_metrics_that_are_documented(board: dict[str, Any]) -> None:
    names = {name for _, registry in _registries() for name, *_ in _metrics(registry)}
    known = names | {f"{name}_{part}" for name in names for part in ("bucket", "sum", "count")} | _OF_PROCESSES
    texts = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    texts += [variable["definition"] for variable in board["templating"]["list"] if "definition" in variable]
    asked = {name for text in texts for name in re.findall(r"\b(?:sangam|process)_\w+", text)}
    assert asked - known == set()
    shown = {name for name in names if any(each == name or each.startswith(f"{name}_") for each in asked)}
    assert names - shown == set(), "metrics that no panel shows"


def test_the_dashboard_belongs_to_no_data_source(board: dict[str, Any]) -> None:
    variables = {variable["name"]: variable for variable in board["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    assert variables["ranker"]["type"] == "query"
    sources = [part["datasource"]["uid"] for part in (*board["panels"], variables["ranker"]) if "datasource" in part]
    sources += [target["datasource"]["uid"] for panel in board["panels"] for target in panel.get("targets", ())]
    assert set(sources) == {"${datasource}"}


def test_the_panels_lie_side_by_side(board: dict[str, Any]) -> None:
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
    queries = [panel for panel in panels if panel["type"] != "row"]
    assert all(panel["targets"] and panel["description"].endswith(".") for panel in queries)
