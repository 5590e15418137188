"""GPUs in `sangam plan`: which placement of the rows fits, and the price against ranks without one."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sangam.schemas.derived.cost import per_billion_samples
from sangam.schemas.derived.device_memory import CONTEXT_BYTES, DevicePlan, device_plan, fitting_tables
from sangam.schemas.derived.gpu_rate import Rate
from sangam.schemas.derived.plan import Plan
from sangam.schemas.errors import UserError
from sangam.schemas.quantities import parse_bytes, shown_bytes
from sangam.schemas.spec import Spec

OPTION = "--gpu-memory"


class PlannedGpu(NamedTuple):
    """A rank's GPU.

    Attributes:
        limit: its memory.
        plans: with all rows on the host, those of the spec's tables on the device, and all rows on it.
        fitting: tables whose rows fit it together, the smallest first.
    """

    limit: int
    plans: dict[str, DevicePlan]
    fitting: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        """Yields what the plan prints."""
        first = next(iter(self.plans.values()))
        yield (
            f"GPU of {shown_bytes(self.limit)} for each rank (computed, not measured): dense layers "
            f"{shown_bytes(first.dense)}, a batch {shown_bytes(first.batch)}, CUDA {shown_bytes(CONTEXT_BYTES)}"
        )
        for name, plan in self.plans.items():
            verdict = "fits" if plan.total <= self.limit else "does not fit"
            growth = f", {shown_bytes(plan.growth)} of it while a table grows" if plan.growth else ""
            yield f"  {name}: {shown_bytes(plan.total)}{growth}; {verdict}"
        everything = list(self.plans.values())[-1]
        if everything.total > self.limit:
            chosen = ", ".join(self.fitting) or "none"
            yield f"  tables that fit with place: device: {chosen}"

    def document(self) -> dict[str, Any]:
        """Returns it as JSON, for programs."""
        plans = {
            name: {**dataclasses.asdict(plan), "total": plan.total, "fits": plan.total <= self.limit}
            for name, plan in self.plans.items()
        }
        return {"limit": self.limit, "plans": plans, "fitting_tables": self.fitting}


def planned_gpu(spec: Spec, made: Plan, memory: str | None) -> PlannedGpu | None:
    """Returns the plan of a rank's GPU; None without the option.

    Raises:
        UserError: the option has no effect, or is not a size.
    """
    if memory is None:
        return None
    if spec.training.dense_place == "host":
        raise UserError(f"{OPTION}: has no effect: training.dense_place is host (got '{memory}'); remove one of them")
    limit = parse_bytes(OPTION, memory)
    ranks, rows = made.ranks.number, {name: table.rows for name, table in made.tables.items()}
    declared = [name for name in rows if spec.tables[name].place == "device"]
    places = {"all rows on the host": [], "rows as declared": declared, "all rows on the device": list(rows)}
    if not declared:
        del places["rows as declared"]
    if made.servers is not None:
        places = {"rows on parameter servers": []}
    plans = {name: device_plan(spec, rows, ranks=ranks, tables=tables) for name, tables in places.items()}
    return PlannedGpu(limit, plans, fitting_tables(spec, rows, ranks=ranks, limit=limit))


def compared_price(
    spec: Spec,
    samples_per_s: float | None,
    gpu_samples_per_s: float | None,
    rates: Mapping[str, Rate],
    *,
    ranks: int,
    gpu_ranks: int,
) -> str | None:
    """Returns the price of a billion samples by ranks with GPUs against ranks without; None without a rate.

    Args:
        spec: with prices.
        samples_per_s: of all ranks without GPUs; None: unknown.
        gpu_samples_per_s: of all ranks with GPUs; None: the fastest of the predicted rates, by the ranks.
        rates: predicted, of one rank by place of the rows.
        ranks: number of ranks without GPUs.
        gpu_ranks: number of ranks with GPUs.

    Raises:
        UserError: a price or a rate is missing.
    """
    prices = spec.cost
    if gpu_samples_per_s is None:
        if not rates or prices is None or prices.gpu_rank_per_hour is None:
            return None
        gpu_samples_per_s = gpu_ranks * max(rate.samples_per_s for rate in rates.values())
    if prices is None or prices.gpu_rank_per_hour is None:
        raise UserError(
            f"--gpu-samples-per-s: has no effect: the spec has no price of a GPU (got {gpu_samples_per_s:g}); declare "
            "cost.gpu_rank_per_hour"
        )
    on_gpus = prices.model_copy(update={"rank_per_hour": prices.gpu_rank_per_hour})
    price = per_billion_samples(_with_ranks(spec, gpu_ranks), on_gpus, gpu_samples_per_s)
    told = f"cost on GPUs: {price:.4g} {prices.currency} for a billion samples"
    if samples_per_s is None:
        return f"{told}; --samples-per-s, of ranks without GPUs, adds the comparison"
    without = per_billion_samples(_with_ranks(spec, ranks), prices, samples_per_s)
    return f"{told}, {(price - without) / without:+.0%} against {without:.4g} {prices.currency} without"


def _with_ranks(spec: Spec, ranks: int) -> Spec:
    return spec.model_copy(update={"cluster": spec.cluster.model_copy(update={"ranks": ranks})})
