"""Tables of what contestants took: candidates a second of a core, latencies, prices."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.results import table
from bench.serving_peers.worker import SIZES
from sangam.schemas.derived.cost import per_million_candidates
from sangam.schemas.spec.cost import Cost

LABELS = {
    "server": "this server: a request over gRPC",
    "server_busy": "this server: 8 clients",
    "call": "the bare call: the same in process",
    "lookups": "look-ups and dense part: PyTorch, AOTInductor",
    "dense": "dense part: TensorFlow, our layers",
    "onnxruntime": "dense part: ONNX Runtime",
    "openvino": "dense part: OpenVINO",
    "aot_inductor": "dense part: PyTorch, AOTInductor",
    "lightgbm": "trees: LightGBM",
}
_SECONDS_A_DAY = 86_400


@dataclass(frozen=True)
class Traffic:
    """A day's requests.

    Attributes:
        label: what they are.
        requests: number.
        candidates: of a request.
    """

    label: str
    requests: float
    candidates: int


@dataclass(frozen=True)
class Measured:
    """What a contestant took for requests of one size.

    Attributes:
        rate: candidates a second of one busy core.
        p50_ms: median of a request's milliseconds.
        p99_ms: their 99th percentile.
    """

    rate: float
    p50_ms: float
    p99_ms: float


def measured(turns: Sequence[Mapping[str, Any]], candidates: int) -> Measured:
    """Returns the numbers of all turns of a contestant together."""
    taken_ms = np.concatenate([turn["ms"] for turn in turns])
    rate = candidates * len(taken_ms) / sum(turn["processor_s"] for turn in turns)
    return Measured(rate, *(float(each) for each in np.percentile(taken_ms, [50, 99])))


def speeds(found: Mapping[str, Mapping[int, Measured]], core_hour: float) -> str:
    """Returns the table of all contestants; prices in USD at that price of a core for an hour."""
    header = ["one thread"]
    for size in SIZES:
        header += [f"{size:,}: candidates/s of a core", "p50 ms", "p99 ms", "USD a million"]
    rows = []
    for label, by_size in _labelled(found):
        cells = [label]
        for size in SIZES:
            each = by_size[size]
            cells += [f"{each.rate:,.0f}", f"{each.p50_ms:.2f}", f"{each.p99_ms:.2f}", f"{price(each, core_hour):.6f}"]
        rows.append(cells)
    return table(header, rows)


def days(found: Mapping[str, Mapping[int, Measured]], core_hour: float, traffic: Sequence[Traffic]) -> str:
    """Returns the table of what a day of each traffic costs, and how many cores it keeps busy on average."""
    header = ["a day of", *(f"{each.label}: {unit}" for each in traffic for unit in ("USD", "cores"))]
    rows = []
    for label, by_size in _labelled(found):
        cells = [label]
        for each in traffic:
            of_size, count = by_size[each.candidates], each.requests * each.candidates
            cells += [_short(price(of_size, core_hour) * count / 1e6), _short(count / _SECONDS_A_DAY / of_size.rate)]
        rows.append(cells)
    return table(header, rows)


def _short(number: float) -> str:
    """Returns a number with three digits or all before the point, and without an exponent."""
    if number >= 100:
        return f"{number:,.0f}"
    return np.format_float_positional(number, precision=3, unique=False, fractional=False, trim="-")


def _labelled(found: Mapping[str, Mapping[int, Measured]]) -> Iterator[tuple[str, Mapping[int, Measured]]]:
    return ((label, found[name]) for name, label in LABELS.items() if name in found)


def price(of: Measured, core_hour: float) -> float:
    """Returns the price of a million candidates."""
    cost = Cost(currency="USD", rank_per_hour=0, step_per_hour=0, serving_core_hour=core_hour)
    found = per_million_candidates(cost, of.rate)
    assert found is not None
    return found


def quality(found: Mapping[str, Mapping[str, float]]) -> str:
    """Returns the table of each model's AUC by task."""
    header = ["AUC of the last day", *next(iter(found.values()))]
    return table(header, [[name, *(f"{auc:.4f}" for auc in of.values())] for name, of in found.items()])
