"""Samples the values of a trial from the ranges of a spec."""

import json
from collections.abc import Mapping
from typing import Any, assert_never

import numpy as np
import optuna

from sangam.schemas.loading import Parsed
from sangam.schemas.loading.documents import check_document, value_at, whole, with_values
from sangam.schemas.loading.tuning_ranges import changes
from sangam.schemas.spec import digest
from sangam.schemas.spec.tuning import Choice, FloatRange, IntRange, Range, Together, Tuning

Values = dict[str, Any]
"""Values by dotted path into the spec, or by the name of a set of values that change together."""


def draw(trial: optuna.trial.Trial, ranges: Mapping[str, Range]) -> Values:
    """Returns a trial's values. Values that it sampled before an interruption stay."""
    return {path: _drawn(trial, path, range_) for path, range_ in ranges.items()}


def _drawn(trial: optuna.trial.Trial, path: str, range_: Range) -> Any:
    match range_:
        case FloatRange():
            return trial.suggest_float(path, range_.low, range_.high, log=range_.log)
        case IntRange():
            return trial.suggest_int(path, range_.low, range_.high, step=range_.step, log=range_.log)
        case Choice():
            # Optuna supports numbers and texts; a choice may be a list or a mapping, whose key order is kept.
            by_text = {as_text(value): value for value in range_.values}
            return by_text[trial.suggest_categorical(path, list(by_text))]
        case Together():
            return trial.suggest_categorical(path, list(range_.values))
        case _:
            assert_never(range_)


def sampler_of(seed: int, number: int) -> optuna.samplers.BaseSampler:
    """Returns the sampler of one trial.

    Each trial has its own random numbers: its samples depend only on seed, number and earlier trials, not on
    interruptions of the search.
    """
    own_seed = int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
    return _ShortNumbers(seed=own_seed)


class _ShortNumbers(optuna.samplers.TPESampler):
    """A sampler whose numbers are worth writing into a spec: 0.003482 instead of 0.0034817250943212."""

    def sample_independent(
        self,
        study: optuna.Study,
        trial: optuna.trial.FrozenTrial,
        param_name: str,
        param_distribution: optuna.distributions.BaseDistribution,
    ) -> Any:
        """Samples a value of one range; a float has four digits, unless they lie outside of its range."""
        value = super().sample_independent(study, trial, param_name, param_distribution)
        if not isinstance(param_distribution, optuna.distributions.FloatDistribution):
            return value
        return min(max(float(f"{value:.4g}"), param_distribution.low), param_distribution.high)


def own_values(parsed: Parsed, tune: Tuning) -> tuple[Values, list[str]]:
    """Returns the spec's own value in each range, in Optuna's form, and the paths of values outside their range."""
    document = {key: value for key, value in parsed.document.items() if key != "tune"}
    defaults = whole(parsed.spec)
    own = digest(parsed.spec.ranker())
    found: Values = {}
    for path, range_ in tune.ranges.items():
        match range_:
            case FloatRange() | IntRange():
                value = value_at(defaults, path)
                if _lies_in(range_, value):
                    found[path] = value
            case Choice():
                for value in range_.values:
                    spec = check_document(with_values(document, defaults, {path: value}))
                    if not isinstance(spec, list) and digest(spec.ranker()) == own:
                        found[path] = as_text(value)
            case Together():
                for label in range_.values:
                    spec = check_document(with_values(document, defaults, changes({path: label}, {path: range_})))
                    if path not in found and not isinstance(spec, list) and digest(spec.ranker()) == own:
                        found[path] = label
            case _:
                assert_never(range_)
    return found, [path for path in tune.ranges if path not in found]


def start_values(start: Mapping[str, Any], tune: Tuning) -> Values:
    """Returns start values in Optuna's form."""
    return {key: as_text(value) if isinstance(tune.ranges[key], Choice) else value for key, value in start.items()}


def _lies_in(range_: FloatRange | IntRange, value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    is_step = isinstance(range_, FloatRange) or (value - range_.low) % range_.step == 0
    return range_.low <= value <= range_.high and is_step


def as_text(value: Any) -> str:
    """Returns a value of a choice in Optuna's form."""
    return json.dumps(value, sort_keys=True)
