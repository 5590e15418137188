"""The moves of a prepared search: each value once, as a single change of the best trial so far."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import optuna

from sangam.pipelines.tune.space import as_text
from sangam.schemas.spec.tuning import Choice, FloatRange, Range, Together

MOVE = "move"
"""User attribute of Optuna's trials: path and value that differ from the best trial."""
_TIMES = 2.0
_ENDED = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED)


def next_move(study: optuna.Study, ranges: Mapping[str, Range]) -> tuple[dict[str, Any], tuple[str, Any]] | None:
    """Returns the next trial's values in Optuna's form, and the one that differs from the best trial's.

    Neither a tried value nor one of the first trial is repeated after the best trial has changed: a second round would
    gain little.

    Returns:
        None after every value has been tried, or while no trial is done.
    """
    trials = study.get_trials(deepcopy=False)
    if not any(trial.state == optuna.trial.TrialState.COMPLETE for trial in trials):
        return None
    best = study.best_trial.params
    tried = {tuple(trial.user_attrs[MOVE]) for trial in trials if MOVE in trial.user_attrs}
    for path, range_ in ranges.items():
        for value, name in _values(range_, best[path]):
            move = {**best, path: value}
            known = value in (best[path], trials[0].params[path]) or (path, name) in tried
            if not known and not _was_made(move, trials):
                return move, (path, name)
    return None


def _values(range_: Range, best: Any) -> Iterator[tuple[Any, Any]]:
    """Yields the values to try, with their names: a number on a log scale is doubled and halved."""
    match range_:
        case Choice(values=choices):
            yield from ((as_text(value), as_text(value)) for value in choices)
        case Together(values=labels):
            yield from ((label, label) for label in labels)
        case FloatRange(log=True, low=low, high=high):
            yield min(best * _TIMES, high), "more"
            yield max(best / _TIMES, low), "less"
        case _:
            return


def _was_made(values: Mapping[str, Any], trials: Sequence[optuna.trial.FrozenTrial]) -> bool:
    return any(trial.params == values for trial in trials if trial.state in _ENDED)
