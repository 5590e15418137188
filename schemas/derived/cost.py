"""The cost of a run, from the seconds of its steps and the prices of a spec."""

from collections.abc import Mapping
from dataclasses import dataclass

from sangam.schemas.spec import Spec
from sangam.schemas.spec.cost import Cost

_SECONDS_AN_HOUR = 3600.0
_TRAINER = "trainer"


@dataclass(frozen=True)
class RunCost:
    """The cost of a run, in the currency of the spec.

    Attributes:
        by_step: a step from the cache costs the seconds that looking it up took.
        total: cost of all steps.
        per_million_examples: `total` over the examples of the train split; None without any.
        serving_per_million_candidates: of busy cores of servers; None where it was not measured.
        live_per_million_candidates: the same of the version that the model would replace.
        training_per_billion_samples: of the training alone, without export and start-up, over the examples that it was
            trained on, each as often as it was; None where nothing was trained.
    """

    by_step: dict[str, float]
    total: float
    per_million_examples: float | None
    training_per_billion_samples: float | None
    serving_per_million_candidates: float | None
    live_per_million_candidates: float | None


def job_per_hour(spec: Spec, cost: Cost) -> float:
    """Returns the price of an hour of the training job: its ranks, data workers and parameter servers."""
    helpers = spec.cluster.own_data_workers + spec.num_parameter_servers
    return spec.cluster.ranks * cost.rank_per_hour + helpers * cost.step_per_hour


def run_cost(
    spec: Spec,
    cost: Cost,
    seconds: Mapping[str, float],
    *,
    examples: int,
    samples_per_s: float | None,
    candidates_per_core_s: float | None = None,
    live_candidates_per_core_s: float | None = None,
) -> RunCost:
    """Returns the cost of a run.

    Args:
        spec: spec of the run.
        cost: its prices.
        seconds: seconds of each step.
        examples: number of examples of the train split.
        samples_per_s: that all ranks together have trained on; None: nothing was trained.
        candidates_per_core_s: that one core of a server answers; None: not measured.
        live_candidates_per_core_s: the same of the live version.
    """
    job = job_per_hour(spec, cost)
    by_step = {
        step: each / _SECONDS_AN_HOUR * (job if step == _TRAINER else cost.step_per_hour)
        for step, each in seconds.items()
    }
    total = sum(by_step.values())
    return RunCost(
        by_step=by_step,
        total=total,
        per_million_examples=1e6 * total / examples if examples else None,
        training_per_billion_samples=per_billion_samples(spec, cost, samples_per_s) if samples_per_s else None,
        serving_per_million_candidates=per_million_candidates(cost, candidates_per_core_s),
        live_per_million_candidates=per_million_candidates(cost, live_candidates_per_core_s),
    )


def per_billion_samples(spec: Spec, cost: Cost, samples_per_s: float) -> float:
    """Returns the cost of training on a billion examples at a rate of all ranks together."""
    return 1e9 / samples_per_s / _SECONDS_AN_HOUR * job_per_hour(spec, cost)


def per_million_candidates(cost: Cost, candidates_per_core_s: float | None) -> float | None:
    """Returns the price of a million candidates at a rate of one core; None without the rate or a price of cores."""
    if cost.serving_core_hour is None or candidates_per_core_s is None:
        return None
    return 1e6 / candidates_per_core_s / _SECONDS_AN_HOUR * cost.serving_core_hour


def serving_price(currency: str, price: float, live: float | None) -> str:
    """Returns the price of a million candidates in words, and what it adds over that of the live version."""
    told = f"serving {price:.4g} {currency} for a million candidates"
    if not live:
        return told
    return f"{told}, {price - live:+.4g} ({price / live - 1:+.1%}) over the live version"
