"""The search itself: samples trials, starts them, follows their epochs, and records their results."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, assert_never

import optuna

from sangam.pipelines.tune.moves import MOVE, next_move
from sangam.pipelines.tune.records import (
    EPOCH,
    IS_SPEC,
    REASON,
    SECONDS,
    STARTS,
    VALIDATION,
    VALUES,
    Objective,
    Trial,
    Validation,
    trials_of,
)
from sangam.pipelines.tune.space import draw, own_values, sampler_of, start_values
from sangam.pipelines.tune.training import Result, TrialFailed
from sangam.schemas.derived.search import PreparedSearch
from sangam.schemas.loading import Parsed
from sangam.schemas.loading.documents import check_document, whole, with_values
from sangam.schemas.loading.tuning_ranges import changes
from sangam.schemas.spec import Spec
from sangam.schemas.spec.tuning import MedianPruning, Pruning, SuccessiveHalving, Tuning

HOPELESS_AFTER = 5
"""Number of failed trials after which a search without a success ends: the error is in the shared settings."""
_TRIALS = 20
_POLL_S = 0.2
_State = optuna.trial.TrialState


class Running(Protocol):
    """A running training; see `training.Training`."""

    def is_running(self) -> bool: ...
    def epochs(self) -> list[Validation]: ...
    def progress(self) -> str: ...
    def result(self) -> Result: ...
    def end(self) -> None: ...
    def tidy(self) -> None: ...


Start = Callable[[int, Spec], Running]
"""Starts the training of a trial from its number and spec. Raises TrialFailed without examples."""


@dataclass(frozen=True)
class Watcher:
    """Callbacks of a search.

    Attributes:
        ended: called for every finished trial.
        running: called periodically with the number and the progress of every running trial.
    """

    ended: Callable[[Trial], None] = lambda trial: None
    running: Callable[[Sequence[tuple[int, str]]], None] = lambda trials: None


@dataclass
class _Started:
    trial: optuna.trial.Trial
    spec: Spec
    training: Running
    began: float = field(default_factory=time.monotonic)
    epochs: list[Validation] = field(default_factory=list)


class Search:
    """A search that stores every decision in Optuna's study, so that it can resume after any interruption."""

    def __init__(self, parsed: Parsed, prepared: PreparedSearch, objective: Objective, study: optuna.Study):
        """Stores the spec, its search, the objective, and Optuna's study."""
        document = {key: value for key, value in parsed.document.items() if key != "tune"}
        self._defaults = whole(parsed.spec)
        self._document = with_values(document, self._defaults, prepared.changes)
        self._tune, self._objective, self._study = prepared.tune, objective, study
        if not study.get_trials(deepcopy=False):
            own, outside = own_values(parsed, prepared.tune)
            if not outside:
                # The first trial is the unchanged spec, for comparison.
                study.enqueue_trial(own, user_attrs={IS_SPEC: True})
            for start in prepared.starts:
                study.enqueue_trial({**own, **start_values(start, prepared.tune)})

    def run(self, start: Start, watcher: Watcher, *, jobs: int) -> None:
        """Runs trials, `jobs` at a time, until `tune.trials` have run, time is up, or the first ones all failed.

        When time is up, running trials are ended, and count by their best epoch so far.
        """
        until = math.inf if self._tune.minutes is None else time.monotonic() + 60.0 * self._tune.minutes
        interrupted = [trial.number for trial in trials_of(self._study) if trial.state == "unfinished"]
        running: list[_Started] = []
        try:
            while True:
                while len(running) < jobs and (interrupted or self._may_begin(until)):
                    trial = self._again(interrupted.pop(0)) if interrupted else self._next()
                    if started := self._begin(trial, start, watcher):
                        running.append(started)
                if not running:
                    return
                running = [each for each in running if not self._has_ended(each, watcher)]
                if time.monotonic() >= until:
                    running = [each for each in running if not self._cut_off(each, watcher)]
                if running:
                    watcher.running([(each.trial.number, each.training.progress()) for each in running])
                    time.sleep(_POLL_S)
        finally:
            for each in running:
                each.training.end()

    def _may_begin(self, until: float) -> bool:
        begun = trials_of(self._study)
        return len(begun) < most_trials(self._tune) and time.monotonic() < until and not is_hopeless(begun)

    def _next(self) -> optuna.trial.Trial:
        self._study.sampler = sampler_of(self._tune.seed, len(trials_of(self._study)))
        if self._tune.auto and not self._study.get_trials(deepcopy=False, states=(_State.WAITING,)):
            move = next_move(self._study, self._tune.ranges)
            if move is not None:
                self._study.enqueue_trial(move[0], user_attrs={MOVE: move[1]})
        return self._study.ask()

    def _again(self, number: int) -> optuna.trial.Trial:
        self._study.sampler = sampler_of(self._tune.seed, number)
        [found] = [trial for trial in self._study.get_trials(deepcopy=False) if trial.number == number]
        # Optuna returns the trial by its id, with the sampled values.
        return optuna.trial.Trial(self._study, found._trial_id)

    def _begin(self, trial: optuna.trial.Trial, start: Start, watcher: Watcher) -> _Started | None:
        """Starts a trial's training; returns None and fails the trial if its values give no valid spec."""
        values = draw(trial, self._tune.ranges)
        trial.set_user_attr(VALUES, values)
        trial.set_user_attr(STARTS, trial.user_attrs.get(STARTS, 0) + 1)
        changed = changes(values, self._tune.ranges)
        spec = check_document(with_values(self._document, self._defaults, changed))
        if isinstance(spec, list):
            self._fail(trial, f"no valid spec: {spec[0]}", watcher)
            return None
        try:
            return _Started(trial, spec, start(trial.number, spec))
        except TrialFailed as failed:
            self._fail(trial, str(failed), watcher)
            return None

    def _has_ended(self, started: _Started, watcher: Watcher) -> bool:
        """Records new epochs of a training; returns whether its trial has ended."""
        trial, training = started.trial, started.training
        # Read first, so that all output of a finished training is visible below.
        is_running = training.is_running()
        for validation in training.epochs()[len(started.epochs) :]:
            started.epochs.append(validation)
            if self._is_no_good(started) and is_running:
                training.end()
                self._note(started, Result(len(started.epochs), validation))
                self._study.tell(trial, state=_State.PRUNED)
                return self._told(started, watcher)
        if is_running:
            return False
        try:
            result = training.result()
        except TrialFailed as failed:
            return self._failed(started, str(failed), watcher)
        value = self._objective.value(result.validation)
        self._note(started, result)
        if math.isnan(value):
            return self._failed(started, f"{self._objective.name} is undefined on the validation split", watcher)
        self._study.tell(trial, value)
        return self._told(started, watcher)

    def _cut_off(self, started: _Started, watcher: Watcher) -> bool:
        """Ends a training when time is up; its trial counts by its best epoch, if it has one."""
        started.training.end()
        values = [self._objective.value(validation) for validation in started.epochs]
        known = [value for value in values if not math.isnan(value)]
        if not known:
            self._study.tell(started.trial, state=_State.PRUNED)
            return self._told(started, watcher)
        best = max(known) if self._objective.is_larger_better else min(known)
        epoch = values.index(best)
        self._note(started, Result(epoch + 1, started.epochs[epoch]))
        self._study.tell(started.trial, best)
        return self._told(started, watcher)

    def _is_no_good(self, started: _Started) -> bool:
        """Reports the last epoch, counted from 1, to the pruner; returns whether it would skip the remaining epochs."""
        epoch = len(started.epochs)
        value = self._objective.value(started.epochs[-1])
        if self._tune.pruning is None or math.isnan(value):
            return False
        [known] = [found for found in self._study.get_trials(deepcopy=False) if found.number == started.trial.number]
        if epoch not in known.intermediate_values:
            started.trial.report(value, epoch)
        return epoch < started.spec.training.epochs and started.trial.should_prune()

    def _note(self, started: _Started, result: Result) -> None:
        started.trial.set_user_attr(EPOCH, result.epoch)
        started.trial.set_user_attr(VALIDATION, {task: dict(metrics) for task, metrics in result.validation.items()})
        started.trial.set_user_attr(SECONDS, round(time.monotonic() - started.began, 1))

    def _failed(self, started: _Started, reason: str, watcher: Watcher) -> bool:
        started.trial.set_user_attr(SECONDS, round(time.monotonic() - started.began, 1))
        started.training.tidy()
        self._fail(started.trial, reason, watcher)
        return True

    def _fail(self, trial: optuna.trial.Trial, reason: str, watcher: Watcher) -> None:
        trial.set_user_attr(REASON, reason)
        self._study.tell(trial, state=_State.FAIL)
        self._tell(trial.number, watcher)

    def _told(self, started: _Started, watcher: Watcher) -> bool:
        started.training.tidy()
        self._tell(started.trial.number, watcher)
        return True

    def _tell(self, number: int, watcher: Watcher) -> None:
        watcher.ended(next(trial for trial in trials_of(self._study) if trial.number == number))


def most_trials(tune: Tuning) -> float:
    """Returns the largest number of trials of a search; infinite if time is the limit."""
    return tune.trials or (_TRIALS if tune.minutes is None else math.inf)


def is_hopeless(trials: Sequence[Trial]) -> bool:
    """Returns whether HOPELESS_AFTER trials have ended, and all have failed."""
    ended = [trial for trial in trials if trial.state != "unfinished"]
    return len(ended) >= HOPELESS_AFTER and all(trial.state == "failed" for trial in ended)


def open_study(file: Path | None, name: str, pruning: Pruning | None, objective: Objective) -> optuna.Study:
    """Opens Optuna's study of a search, creating it if missing.

    Args:
        file: SQLite file, whose transactions survive SIGKILL at any time; None: in memory.
        name: name of the ranker.
        pruning: rule that ends trials early.
        objective: objective of the search.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(
        storage=None if file is None else f"sqlite:///{file.absolute()}",
        study_name=name,
        direction="maximize" if objective.is_larger_better else "minimize",
        load_if_exists=True,
        pruner=_pruner(pruning),
    )


def _pruner(pruning: Pruning | None) -> optuna.pruners.BasePruner:
    match pruning:
        case None:
            return optuna.pruners.NopPruner()
        case MedianPruning(after_trials=trials, after_epochs=epochs):
            # Optuna does not prune before this step; steps are epochs from 1.
            return optuna.pruners.MedianPruner(n_startup_trials=trials, n_warmup_steps=epochs + 1)
        case SuccessiveHalving(factor=factor, first_epochs=epochs):
            return optuna.pruners.SuccessiveHalvingPruner(min_resource=epochs, reduction_factor=factor)
        case _:
            assert_never(pruning)
