"""Trains trees in their own environment: `python -m bench.quality.peers.trees LIBRARY SEED TABLE SCORES`.

TABLE has the rows of every part; SCORES receives, for each task, the predictions of the evaluated rows after stopping
early on validation rows, and after training as many trees on those rows too. Nothing of ours is imported.
"""

import json
import resource
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

MOST_TREES, PATIENCE, RATE = 500, 30, 0.1
THREADS = 1
"""One, so that processor seconds are those of work and not of waiting."""


class Part(NamedTuple):
    """Rows: x is [rows, columns], y one task's labels."""

    x: Any
    y: Any


class Trees(NamedTuple):
    """Trained trees: their number, and their predictor."""

    count: int
    predict: Callable[[Any], Any]


Fit = Callable[[Part, Part | None, int, list[int], int], Trees]
"""Trains on a part with at most so many trees: stops early on the second part, if there is one; categories; seed."""


def lightgbm(train: Part, validation: Part | None, trees: int, categories: list[int], seed: int) -> Trees:
    """LightGBM: 31 leaves, a sample of columns for each tree, else its defaults."""
    import lightgbm as library

    how = {"objective": "binary", "metric": "auc", "learning_rate": RATE, "feature_fraction": 0.8}
    how |= {"verbosity": -1, "num_threads": THREADS, "seed": seed}
    made = library.Dataset(train.x, train.y, categorical_feature=categories, params={"verbosity": -1})
    watched = [library.Dataset(validation.x, validation.y, reference=made)] if validation else []
    stop = [library.early_stopping(PATIENCE, verbose=False)] if validation else []
    found = library.train(how, made, trees, valid_sets=watched, callbacks=stop)
    return Trees(found.best_iteration if validation else trees, found.predict)


def xgboost(train: Part, validation: Part | None, trees: int, categories: list[int], seed: int) -> Trees:
    """XGBoost: histograms, depth 6, a sample of columns for each tree, else its defaults."""
    import xgboost as library

    types = ["c" if column in categories else "q" for column in range(train.x.shape[1])]

    def matrix(x: Any, y: Any = None) -> Any:
        return library.DMatrix(x, y, feature_types=types, enable_categorical=True, nthread=THREADS)

    how = {"objective": "binary:logistic", "eval_metric": "auc", "eta": RATE, "tree_method": "hist"}
    how |= {"colsample_bytree": 0.8, "nthread": THREADS, "seed": seed}
    watched = [(matrix(*validation), "validation")] if validation else []
    stop = PATIENCE if validation else None
    found = library.train(how, matrix(*train), trees, watched, early_stopping_rounds=stop, verbose_eval=False)
    count = found.best_iteration + 1 if validation else trees
    return Trees(count, lambda x: found.predict(matrix(x), iteration_range=(0, count)))


def catboost(train: Part, validation: Part | None, trees: int, categories: list[int], seed: int) -> Trees:
    """CatBoost: its defaults, with a rate of 0.1."""
    import catboost as library
    import pandas as pd

    def pool(x: Any, y: Any = None) -> Any:
        frame = pd.DataFrame(x)
        for column in categories:
            frame[column] = frame[column].fillna(-1).astype("int64")
        return library.Pool(frame, y, cat_features=categories)

    how = {"iterations": trees, "learning_rate": RATE, "eval_metric": "AUC", "thread_count": THREADS}
    model = library.CatBoostClassifier(**how, random_seed=seed, verbose=False, allow_writing_files=False)
    watched = {"eval_set": pool(*validation), "early_stopping_rounds": PATIENCE} if validation else {}
    model.fit(pool(*train), **watched)
    return Trees(model.tree_count_, lambda x: model.predict_proba(pool(x))[:, 1])


FITS: dict[str, Fit] = {"lightgbm": lightgbm, "xgboost": xgboost, "catboost": catboost}


def scores_of(fit: Fit, table: Any, seed: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Returns the scores of the evaluated rows, [rows, tasks], of both ways, and by task the trees and seconds."""
    parts, x, labels, categories = table["parts"], table["x"], table["labels"], table["categories"].tolist()
    scores: dict[str, list[Any]] = {"stopped": [], "refitted": []}
    costs = []
    for y in labels.T:
        fitted, validation, known = (Part(x[where], y[where]) for where in (parts == 0, parts == 1, parts < 2))
        begun = _processor_s()
        stopped = fit(fitted, validation, MOST_TREES, categories, seed)
        at_stop = _processor_s()
        refitted = fit(known, None, stopped.count, categories, seed)
        cost = {"trees": stopped.count, "stopped_s": at_stop - begun, "refitted_s": _processor_s() - begun}
        costs.append(cost)
        for name, trees in (("stopped", stopped), ("refitted", refitted)):
            scores[name].append(trees.predict(x[parts == 2]))
    return {name: np.stack(each, 1) for name, each in scores.items()}, costs


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main(library: str, seed: str, table: str, scores: str) -> None:
    """Trains, writes the scores, and prints the costs as JSON."""
    found, costs = scores_of(FITS[library], np.load(table), int(seed))
    np.savez(scores, **found)
    print(json.dumps(costs))


if __name__ == "__main__":
    main(*sys.argv[1:])
