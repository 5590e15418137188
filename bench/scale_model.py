"""Samples a second and the price of a billion with 1 to 512 ranks, by mode, from measured costs.

    python -m bench.scale_model
    python -m bench.scale_model --gbit-s 10 --rtt-us 500 --ranks-per-host 1 --core-hour 0.05

docs/scale.md has the assumptions; `bench.scaling` has the formulas.
"""

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import results
from bench.scale_costs import FILE, Costs, Network, Prices, load, unique_keys
from bench.scaling import MODES, Point, in_step, point

RANKS = (1, 2, 4, 8, 16, 20, 32, 64, 128, 256, 512)
_WANTED, _TRAINERS = 200_000, 20


def points(costs: Costs, network: Network, prices: Prices, **helpers: int | None) -> list[Point]:
    """Returns every mode at every number of ranks that it can have."""
    every = (point(mode, ranks, costs, network, prices, **helpers) for mode in MODES for ranks in RANKS)
    return [each for each in every if each is not None]


def table(found: Sequence[Point]) -> str:
    """Returns points as Markdown."""
    rows = []
    for each in found:
        one = next(first for first in found if first.mode == each.mode)
        linear = each.samples_per_s / (one.samples_per_s * each.ranks / one.ranks)
        processes = [str(each.ranks), str(each.servers or ""), str(each.workers)]
        speeds = [f"{each.step_ms:.1f}", f"{each.samples_per_s:,.0f}", f"{linear:.2f}", f"{each.per_billion:.2f}"]
        rows.append([each.mode, *processes, *speeds, each.bottleneck])
    header = ["mode", "ranks", "servers", "input workers", "ms a step", "samples/s", "of linear", "price of 10^9"]
    return results.table([*header, "bottleneck"], rows)


def fewest(mode: str, wanted: float, costs: Costs, network: Network, prices: Prices) -> Point | None:
    """Returns the least number of ranks that gives so many samples a second; None: 512 do not."""
    for ranks in range(1, max(RANKS) + 1):
        found = point(mode, ranks, costs, network, prices)
        if found is not None and found.samples_per_s >= wanted:
            return found
    return None


def headlines(costs: Costs, network: Network, prices: Prices) -> str:
    """Returns the three published set-ups, as Markdown."""
    least, trainers = [], []
    for mode in MODES:
        found = fewest(mode, _WANTED, costs, network, prices)
        cells = ["more than 512, or than one host", "", "", ""]
        if found is not None:
            servers = str(found.servers or "")
            cells = [str(found.ranks), servers, f"{found.samples_per_s:,.0f}", f"{found.per_billion:.2f}"]
        least.append([mode, *cells])
        one, many = (point(mode, ranks, costs, network, prices) for ranks in (1, _TRAINERS))
        if one is not None and many is not None:
            share = many.samples_per_s / one.samples_per_s / _TRAINERS
            trainers.append([mode, f"{many.samples_per_s:,.0f}", f"{share:.2f}", many.bottleneck])
    tables = (
        results.table([f"{_WANTED:,} samples/s", "ranks", "servers", "samples/s", "price of 10^9"], least),
        results.table([f"{_TRAINERS} ranks", "samples/s", "of linear", "bottleneck"], trainers),
        _hundred_trillion(costs, network),
    )
    return "\n\n".join(tables)


def _hundred_trillion(costs: Costs, network: Network) -> str:
    """Returns a step of 720 ranks, 24 on each of 30 hosts, with 10^14 parameters in rows of 128 floats."""
    hosts, each, dim = 30, 24, 128
    large = wider(dataclasses.replace(costs, num_ids=10**14 // dim), dim)
    network = dataclasses.replace(network, ranks_per_host=each, cores_per_host=each)
    parts = in_step(hosts * each, large, network, "tcp")
    step_ms = sum(parts.values())
    rows = [[name, f"{ms:.1f}"] for name, ms in [*parts.items(), ("a step", step_ms)]]
    shown = results.table([f"10^14 parameters, {hosts} hosts of {each} ranks", "ms"], rows)
    return f"{shown}\n\n{hosts * each * costs.batch / step_ms * 1e3:,.0f} samples/s"


def wider(costs: Costs, dim: int) -> Costs:
    """Returns costs with wider rows: bytes of rows and multiply-adds of the experts' first layer grow in proportion."""
    times = dim / costs.dim
    first = costs.ids * costs.dim * 1024  # Of 4 experts of 256.
    weights = round(costs.weights + first * (times - 1))
    return dataclasses.replace(
        costs,
        unique=unique_keys(costs.batch, num_ids=costs.num_ids),
        dim=dim,
        weights=weights,
        dense_ms=costs.dense_ms * weights / costs.weights,
        rows_ms=costs.rows_ms * times * unique_keys(costs.batch, num_ids=costs.num_ids) / costs.unique,
        route_ms=costs.route_ms * times,
    )


def main() -> None:
    """Prints tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--costs", type=Path, default=FILE, help="another file of costs")
    for declared in (Network, Prices):
        for field in dataclasses.fields(declared):
            default: Any = field.default
            name = "--" + field.name.replace("_", "-")
            parser.add_argument(name, type=type(default), default=default, help="[default: %(default)s]")
    parser.add_argument("--servers", type=int, help="parameter servers [default: as many as the ranks need]")
    parser.add_argument("--workers", type=int, help="input workers [default: as many as the ranks need]")
    parser.add_argument("--json", action="store_true", help="points alone, as JSON")
    arguments = parser.parse_args()
    given = vars(arguments)
    network = Network(**{field.name: given[field.name] for field in dataclasses.fields(Network)})
    prices = Prices(**{field.name: given[field.name] for field in dataclasses.fields(Prices)})
    costs = load(arguments.costs)
    found = points(costs, network, prices, servers=arguments.servers, workers=arguments.workers)
    if arguments.json:
        print(json.dumps([dataclasses.asdict(each) for each in found], indent=1))
    else:
        print(f"{table(found)}\n\n{headlines(costs, network, prices)}")


if __name__ == "__main__":
    main()
