"""The price of a training in `sangam plan`."""

from typing import NamedTuple

from sangam.schemas.derived.cost import job_per_hour, per_billion_samples
from sangam.schemas.errors import UserError
from sangam.schemas.spec import Spec


class PlannedCost(NamedTuple):
    """The cost of a training job.

    Attributes:
        currency: currency of the spec.
        job_per_hour: price per hour of all ranks, data workers and parameter servers.
        training_per_billion_samples: price of a billion samples; None without a rate.
    """

    currency: str
    job_per_hour: float
    training_per_billion_samples: float | None

    def text(self) -> str:
        """Returns the cost in words."""
        cost = f"cost: the training job {self.job_per_hour:.4g} {self.currency} an hour"
        if self.training_per_billion_samples is None:
            return f"{cost}; --samples-per-s, from a run's report, adds the price of a billion samples"
        return f"{cost}, {self.training_per_billion_samples:.4g} {self.currency} for a billion samples"


def planned_cost(spec: Spec, ranks: int, samples_per_s: float | None) -> PlannedCost | None:
    """Returns the cost of a training with a number of ranks; None if the spec has no prices.

    Raises:
        UserError: a rate without prices.
    """
    if spec.cost is None:
        if samples_per_s is not None:
            raise UserError(
                f"--samples-per-s: has no effect: the spec has no prices (got {samples_per_s:g}); declare `cost`, such "
                "as cost: {currency: EUR, rank_per_hour: 0.4, step_per_hour: 0.1}"
            )
        return None
    prices, spec = spec.cost, spec.model_copy(update={"cluster": spec.cluster.model_copy(update={"ranks": ranks})})
    price = None if samples_per_s is None else per_billion_samples(spec, prices, samples_per_s)
    return PlannedCost(prices.currency, job_per_hour(spec, prices), price)
