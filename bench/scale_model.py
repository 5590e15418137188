"""What 1 to 512 ranks give: samples a second and the price of a billion, by mode, from measured costs.

    python -m bench.scale_model                                  # with the costs that were measured for docs/scale.md
    python -m bench.scale_model --measure runs/scale_costs.json  # with costs of this machine; two quiet cores
    python -m bench.scale_model --check runs/scale_measured.json # predicted against what scale_measure has measured
    python -m bench.scale_model --gbit-s 10 --rtt-us 500 --ranks-per-host 1 --core-hour 0.05

docs/scale.md says what is assumed; `bench.scaling` has the formulas.
"""

import argparse
import dataclasses
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.scale_costs import FILE, WIRED, Costs, Network, Prices, costs_of, load, unique_keys, written
from bench.scaling import MODES, Point, in_step, point

RANKS = (1, 2, 4, 8, 16, 20, 32, 64, 128, 256, 512)
_WANTED, _TRAINERS = 200_000, 20
_BESIDE_MACHINE = Network(gbit_s=0.0, rtt_us=0.0, ranks_per_host=64, cores_per_host=2)
"""The one that checks are measured on."""


def points(costs: Costs, network: Network, prices: Prices, **helpers: int | None) -> list[Point]:
    """Returns every mode at every number of ranks that it can have."""
    every = (point(mode, ranks, costs, network, prices, **helpers) for mode in MODES for ranks in RANKS)
    return [each for each in every if each is not None]


def table(found: Sequence[Point]) -> str:
    """Returns points as Markdown."""
    lines = [
        "| mode | ranks | servers | input workers | ms a step | samples/s | of linear | price of 10^9 | bottleneck |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for each in found:
        one = next(first for first in found if first.mode == each.mode)
        linear = each.samples_per_s / (one.samples_per_s * each.ranks / one.ranks)
        lines.append(
            f"| {each.mode} | {each.ranks} | {each.servers or ''} | {each.workers} | {each.step_ms:.1f} "
            f"| {each.samples_per_s:,.0f} | {linear:.2f} | {each.per_billion:.2f} | {each.bottleneck} |"
        )
    return "\n".join(lines)


def fewest(mode: str, wanted: float, costs: Costs, network: Network, prices: Prices) -> Point | None:
    """Returns the least number of ranks that gives so many samples a second; None: 512 do not."""
    for ranks in range(1, max(RANKS) + 1):
        found = point(mode, ranks, costs, network, prices)
        if found is not None and found.samples_per_s >= wanted:
            return found
    return None


def headlines(costs: Costs, network: Network, prices: Prices) -> str:
    """Returns the three published set-ups, as Markdown."""
    lines = [f"| {_WANTED:,} samples/s | ranks | servers | samples/s | price of 10^9 |", "|---|---|---|---|---|"]
    for mode in MODES:
        found = fewest(mode, _WANTED, costs, network, prices)
        told = "more than 512, or than one host | | |"
        if found is not None:
            told = f"{found.ranks} | {found.servers or ''} | {found.samples_per_s:,.0f} | {found.per_billion:.2f} |"
        lines.append(f"| {mode} | {told}")
    lines += ["", f"| {_TRAINERS} ranks | samples/s | of linear | bottleneck |", "|---|---|---|---|"]
    for mode in MODES:
        one, many = (point(mode, ranks, costs, network, prices) for ranks in (1, _TRAINERS))
        if one is not None and many is not None:
            share = many.samples_per_s / one.samples_per_s / _TRAINERS
            lines.append(f"| {mode} | {many.samples_per_s:,.0f} | {share:.2f} | {many.bottleneck} |")
    return "\n".join([*lines, "", _hundred_trillion(costs, network)])


def _hundred_trillion(costs: Costs, network: Network) -> str:
    """Returns a step of 720 ranks, 24 on each of 30 hosts, with 10^14 parameters in rows of 128 floats."""
    hosts, each, dim = 30, 24, 128
    large = wider(dataclasses.replace(costs, num_ids=10**14 // dim), dim)
    network = dataclasses.replace(network, ranks_per_host=each, cores_per_host=each)
    lines = [f"| 10^14 parameters, {hosts} hosts of {each} ranks | ms |", "|---|---|"]
    parts = in_step(hosts * each, large, network, "horovod")
    lines += [f"| {name} | {ms:.1f} |" for name, ms in parts.items()]
    step_ms = sum(parts.values())
    return "\n".join(
        [*lines, f"| a step | {step_ms:.1f} |", "", f"{hosts * each * costs.batch / step_ms * 1e3:,.0f} samples/s"]
    )


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


def checks(raw: Mapping[str, Any], costs: Costs) -> list[tuple[str, float, float]]:
    """Returns what was measured, predicted and measured: milliseconds of a step, medians of the repeats."""
    found = []
    for part, ranks in (("one", 1), ("two", 2), ("four", 4)):
        for transport in ("horovod", "shared_memory"):
            repeats = [repeat if ranks == 1 else repeat[transport] for repeat in raw.get(part, [])]
            if repeats and (ranks, transport) != (1, "shared_memory"):
                predicted = sum(in_step(ranks, costs, _BESIDE_MACHINE, transport).values())
                found.append((f"{ranks} ranks, {transport}" if ranks > 1 else "1 rank", predicted, _ms(repeats)))
    for name in raw.get("wires", [{}])[0]:
        gbit_s, _, rtt_us, _ = name.replace(",", "").split()
        network = Network(float(gbit_s), float(rtt_us), ranks_per_host=1, cores_per_host=1)
        predicted = sum(in_step(2, beside(costs), network, WIRED).values())
        found.append(
            (f"2 namespaces, {name}", predicted, _ms([repeat[name] for repeat in raw["wires"] if name in repeat]))
        )
    return found


def beside(costs: Costs) -> Costs:
    """Returns costs of a rank whose machine computes on all cores, as hosts that are namespaces of one machine."""
    return dataclasses.replace(
        costs,
        dense_ms=costs.dense_ms * costs.beside,
        rows_ms=costs.rows_ms * costs.beside,
        unique_ms=costs.unique_ms * costs.beside,
        rest_ms=costs.rest_ms * costs.beside,
    )


def check_table(found: Sequence[tuple[str, float, float]]) -> str:
    """Returns predictions as Markdown."""
    lines = ["| | predicted, ms a step | measured | predicted / measured | within 15 % |", "|---|---|---|---|---|"]
    for name, predicted, measured in found:
        ratio = predicted / measured
        is_within = "yes" if abs(ratio - 1) <= 0.15 else "MISSED"
        lines.append(f"| {name} | {predicted:.1f} | {measured:.1f} | {ratio:.2f} | {is_within} |")
    return "\n".join(lines)


def _ms(repeats: Sequence[Mapping[str, Any]]) -> float:
    return statistics.median(statistics.median(repeat["step_s"]) for repeat in repeats) * 1e3


def _measured(file: Path) -> Costs:
    """Measures costs into a file, and what they come from beside it."""
    from bench import scale_measure

    raw = file.with_suffix(".raw.json")
    for part in scale_measure.COSTS:
        scale_measure.add(raw, part, scale_measure.PARTS[part](12))
    costs = costs_of_file(raw)
    file.write_text(written(costs))
    return costs


def costs_of_file(raw: Path) -> Costs:
    """Returns the costs in a file of `bench.scale_measure`."""
    from bench import scale_measure

    return costs_of(
        json.loads(raw.read_text()),
        rows=scale_measure.ROWS,
        weights=scale_measure.WEIGHTS,
        rtt_us=scale_measure.CALIBRATED_RTT_US,
    )


def main() -> None:
    """Tells."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--costs", type=Path, default=FILE, help="a file that --measure has written")
    parser.add_argument("--measure", type=Path, metavar="FILE", help="measure costs first, into this file")
    parser.add_argument("--check", type=Path, metavar="FILE", help="of bench.scale_measure: compare, tell nothing else")
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
    if arguments.measure:
        costs = _measured(arguments.measure)
    elif arguments.check:
        costs = costs_of_file(arguments.check)
    else:
        costs = load(arguments.costs)
    if arguments.check:
        print(check_table(checks(json.loads(arguments.check.read_text()), costs)))
        return
    found = points(costs, network, prices, servers=arguments.servers, workers=arguments.workers)
    if arguments.json:
        print(json.dumps([dataclasses.asdict(each) for each in found], indent=1))
    else:
        print(f"{table(found)}\n\n{headlines(costs, network, prices)}")


if __name__ == "__main__":
    main()
