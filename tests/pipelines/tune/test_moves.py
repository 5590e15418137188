"""One change at a time of the best trial so far."""

from typing import Any

import optuna

from sangam.pipelines.tune.moves import MOVE, next_move
from sangam.schemas.spec.tuning import Choice, FloatRange, Range, Together

RANGES: dict[str, Range] = {
    "dims": Together(kind="together", values={"as declared": {}, "8": {"tables.users.dim": 8}}),
    "model.dropout": Choice(kind="choice", values=(0.0, 0.1, 0.3)),
    "rate": FloatRange(kind="float", low=0.001, high=0.0015, log=True),
}
GAIN = {"8": 1.0, "as declared": 0.0, "0.0": 0.0, "0.1": 5.0, "0.3": 2.0}


def _try(study: optuna.Study, values: dict[str, Any], attrs: dict[str, Any]) -> None:
    study.enqueue_trial(values, user_attrs=attrs)
    trial = study.ask()
    dims = trial.suggest_categorical("dims", ["as declared", "8"])
    dropout = trial.suggest_categorical("model.dropout", ["0.0", "0.1", "0.3"])
    rate = trial.suggest_float("rate", 0.001, 0.0015, log=True)
    study.tell(trial, GAIN[dims] + GAIN[dropout] - rate)


def test_each_value_is_tried_once_beside_the_best_ones() -> None:
    study = optuna.create_study(direction="maximize")
    assert next_move(study, RANGES) is None
    _try(study, {"dims": "as declared", "model.dropout": "0.0", "rate": 0.001}, {})
    made = []
    while (move := next_move(study, RANGES)) is not None:
        made.append(move[1])
        _try(study, move[0], {MOVE: move[1]})
    assert made == [("dims", "8"), ("model.dropout", "0.1"), ("model.dropout", "0.3"), ("rate", "more")]
    assert study.best_trial.params == {"dims": "8", "model.dropout": "0.1", "rate": 0.001}
    assert study.trials[2].params == {"dims": "8", "model.dropout": "0.1", "rate": 0.001}


def test_a_number_stays_in_its_range() -> None:
    study = optuna.create_study(direction="maximize")
    _try(study, {"dims": "8", "model.dropout": "0.1", "rate": 0.001}, {})
    move = next_move(study, {"rate": RANGES["rate"]})
    assert move is not None
    assert move[0]["rate"] == 0.0015
