"""The price of a training in `sangam plan`."""

from typing import NamedTuple

from sangam.schemas.derived.cost import job_per_hour, per_billion_samples, per_million_candidates, serving_price
from sangam.schemas.errors import UserError
from sangam.schemas.spec import Spec


class PlannedCost(NamedTuple):
    """The cost of a training job.

    Attributes:
        currency: currency of the spec.
        job_per_hour: price per hour of all ranks, data workers and parameter servers.
        training_per_billion_samples: price of a billion samples; None without a rate.
        serving_per_million_candidates: price of a million candidates; None without a rate.
    """

    currency: str
    job_per_hour: float
    training_per_billion_samples: float | None
    serving_per_million_candidates: float | None = None

    def text(self) -> str:
        """Returns the cost in words."""
        cost = f"cost: the training job {self.job_per_hour:.4g} {self.currency} an hour"
        if self.serving_per_million_candidates is not None:
            cost += f", {serving_price(self.currency, self.serving_per_million_candidates, None)}"
        if self.training_per_billion_samples is None:
            return f"{cost}; --samples-per-s, from a run's report, adds the price of a billion samples"
        return f"{cost}, {self.training_per_billion_samples:.4g} {self.currency} for a billion samples"


def planned_cost(
    spec: Spec, ranks: int, samples_per_s: float | None, candidates_per_core_s: float | None = None
) -> PlannedCost | None:
    """Returns the cost of a training with a number of ranks; None if the spec has no prices.

    Raises:
        UserError: a rate without prices.
    """
    if candidates_per_core_s is not None and (spec.cost is None or spec.cost.serving_core_hour is None):
        raise UserError(
            f"--candidates-per-core-s: has no effect: the spec has no price of a core (got {candidates_per_core_s:g}); "
            "declare cost.serving_core_hour, such as 0.04"
        )
    if spec.cost is None:
        if samples_per_s is not None:
            raise UserError(
                f"--samples-per-s: has no effect: the spec has no prices (got {samples_per_s:g}); declare `cost`, such "
                "as cost: {currency: EUR, rank_per_hour: 0.4, step_per_hour: 0.1}"
            )
        return None
    prices, spec = spec.cost, spec.model_copy(update={"cluster": spec.cluster.model_copy(update={"ranks": ranks})})
    price = None if samples_per_s is None else per_billion_samples(spec, prices, samples_per_s)
    serving = per_million_candidates(prices, candidates_per_core_s)
    return PlannedCost(prices.currency, job_per_hour(spec, prices), price, serving)
