"""Generated logs of numbers that say little: 31 days of 48 columns, best possible AUC 0.72 and 0.67.

`python -m bench.quality.weak` measures LightGBM on them, where it is installed; early stopping on the last three train
days, then as many trees on all of them.
"""

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

Numbers = NDArray[Any]
FIRST_DAY, NUM_DAYS, COLUMNS, ROWS, TEST_ROWS = datetime.date(2024, 1, 1), 31, 48, 3_000, 30_000
LAST_DAY = FIRST_DAY + datetime.timedelta(NUM_DAYS - 1)


class Day(NamedTuple):
    """Rows of a day: what the logs have, and the probabilities behind the labels."""

    x_BF: Numbers
    labels_B: Numbers
    probabilities_B: Numbers


def drifting(seed: int) -> Iterator[Day]:
    """Yields days of which 8 columns tell something by steps, 20 drift and tell nothing, and the rate wanders."""
    random = np.random.default_rng([seed, 1])
    cuts, heights = random.normal(size=(8, 3)), random.normal(size=(8, 3)) * 0.35
    mean_F, change = np.zeros(COLUMNS), np.zeros(8)
    for number in range(NUM_DAYS):
        mean_F[8:28] += random.normal(size=20) * 0.3
        mean_F[:8] += random.normal(size=8) * 0.05
        change = 0.9 * change + random.normal(size=8) * 0.2
        z = mean_F + random.normal(size=(_rows(number), COLUMNS))
        steps = ((z[:, :8, None] > cuts) - 0.5) * heights * (1 + change)[:, None]
        pairs = 0.4 * (z[:, 0] > 0) * (z[:, 1] > 0) - 0.4 * (z[:, 2] > 0.5) * (z[:, 3] < 0)
        yield _day(z, 0.7 * (steps.sum((1, 2)) + pairs), -1.4 + 0.3 * random.normal(), random)


def many(seed: int) -> Iterator[Day]:
    """Yields days of which 20 columns tell a little by curves and 12 in pairs; all are correlated and drift slowly."""
    random = np.random.default_rng([seed, 2])
    places, used = random.normal(size=(COLUMNS, 3)), random.permutation(COLUMNS)[:20]
    slopes = random.exponential(size=20) * random.choice([-1, 1], 20)
    first, second = random.permutation(COLUMNS)[:12].reshape(2, 6)
    mixed = 0.6 * random.normal(size=(6, COLUMNS))
    mean_F, change = np.zeros(COLUMNS), np.zeros(20)
    for number in range(NUM_DAYS):
        mean_F += 0.06 * random.normal(size=COLUMNS)
        change = 0.95 * change + 0.15 * random.normal(size=20)
        rows = _rows(number)
        z = mean_F + random.normal(size=(rows, 6)) @ mixed + random.normal(size=(rows, COLUMNS))
        u = np.tanh(z / 1.5)
        curves = u + np.sin(2 * u + places[:, 0]) + np.abs(u - 0.3 * places[:, 1]) + (u > places[:, 2])
        logits = ((curves - curves.mean(0)) / curves.std(0))[:, used] @ (slopes * (1 + change))
        yield _day(z, 0.08 * (logits + 2 * (u[:, first] * u[:, second]).sum(1)), -1.5, random)


WORLDS: dict[str, Callable[[int], Iterator[Day]]] = {"drifting": drifting, "many": many}


def _rows(number: int) -> int:
    return TEST_ROWS if number == NUM_DAYS - 1 else ROWS


def _day(z: Numbers, logits_B: Numbers, base: float, random: np.random.Generator) -> Day:
    probabilities = 1 / (1 + np.exp(-(base + logits_B - logits_B.mean())))
    x = z.copy()
    x[:, ::4] = np.exp(x[:, ::4])
    x[:, 1::4] = np.round(2 * x[:, 1::4])
    return Day(x.astype(np.float32), (random.random(len(z)) < probabilities).astype(np.int64), probabilities)


def logs(folder: Path, world: str, seed: int = 1) -> None:
    """Makes the logs of a world on the first call."""
    if (folder / "_DONE").exists():
        return
    for number, day in enumerate(WORLDS[world](seed)):
        of_day = folder / str(FIRST_DAY + datetime.timedelta(number))
        of_day.mkdir(parents=True, exist_ok=True)
        columns = {f"c{place}": day.x_BF[:, place] for place in range(COLUMNS)}
        pq.write_table(pa.table({**columns, "label": day.labels_B}), of_day / "rows.parquet")
    (folder / "_DONE").touch()


def main() -> None:
    """Measures LightGBM and the truth."""
    import lightgbm

    for world, days in WORLDS.items():
        *train, test = days(1)
        truth = roc_auc_score(test.labels_B, test.probabilities_B)
        x, labels = np.concatenate([day.x_BF for day in train]), np.concatenate([day.labels_B for day in train])
        held = 3 * ROWS
        for leaves, rate in ((31, 0.1), (15, 0.05)):
            settings: dict[str, Any] = {"num_leaves": leaves, "learning_rate": rate, "n_jobs": 1, "verbose": -1}
            stop = lightgbm.early_stopping(30, verbose=False)
            model = lightgbm.LGBMClassifier(n_estimators=1_000, **settings)
            model.fit(
                x[:-held], labels[:-held], eval_set=[(x[-held:], labels[-held:])], eval_metric="auc", callbacks=[stop]
            )
            trees = model.best_iteration_
            model = lightgbm.LGBMClassifier(n_estimators=trees, **settings).fit(x, labels)
            auc = roc_auc_score(test.labels_B, model.predict_proba(test.x_BF)[:, 1])
            print(f"{world}: truth {truth:.4f}; {leaves} leaves, rate {rate}: {trees} trees, {auc:.4f}", flush=True)


if __name__ == "__main__":
    main()
