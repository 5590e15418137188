"""AUCs of LightGBM, one model per task, on the same columns: what users of boosted trees have.

`python bench/quality/boosted_trees.py feed FOLDER` in an environment with lightgbm, pandas and pyarrow, which the
project does not depend on. The features are the columns that a tree can use: numbers, and ids as numbers.
"""

import argparse
from pathlib import Path

import lightgbm
import pandas as pd
from sklearn.metrics import roc_auc_score

FEED_TASKS = ["like", "share", "download", "long_watch"]
FEED_NUMBERS = ["duration_s", "post_age_h", "author_followers", "network_mbps", "hour"]
FEED_IDS = ["user_id", "post_id", "author_id", "language", "tab"]


def feed(folder: Path, seed: int, evaluated: int) -> dict[str, float]:
    """Returns AUCs on one of the generated feed's days, trained on all days before it."""
    days = [pd.read_parquet(day) for day in sorted(folder.glob("????-??-??"))]
    rows = pd.concat(days, ignore_index=True)
    ends = pd.Series([len(day) for day in days]).cumsum()
    inputs = rows[FEED_NUMBERS].astype("float32")
    for column in FEED_IDS:
        inputs[column] = rows[column].astype("category").cat.codes
    train = slice(0, ends.iloc[evaluated - 1])
    test = slice(ends.iloc[evaluated - 1], ends.iloc[evaluated])
    found = {}
    for task in FEED_TASKS:
        model = lightgbm.LGBMClassifier(
            n_estimators=300,
            learning_rate=0.05,
            num_leaves=31,
            min_child_samples=100,
            verbose=-1,
            random_state=seed,
            n_jobs=1,
        )
        model.fit(inputs.iloc[train], rows[task].iloc[train])
        found[task] = float(roc_auc_score(rows[task].iloc[test], model.predict_proba(inputs.iloc[test])[:, 1]))
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", choices=["feed"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--day", type=int, default=6, help="evaluated day, from 0")
    options = parser.parse_args()
    print(feed(options.folder, options.seed, options.day))
