"""Requests of the ranker of `bench.large_training`: NumPy alone, so that a server that sends them stays bare."""

import numpy as np

HISTORY, INTERESTS = 50, 20
OF_ONE_USER = ("user", "history", "history_length", "interests", "interests_length")


def requests(count: int, num_rows: int) -> dict[str, np.ndarray]:
    """Returns columns of `count` examples as `rank` takes them; about all their ids have a row."""
    generator, ids = np.random.default_rng(1), num_rows // 4
    return {
        "user": generator.integers(ids, size=count),
        "history": generator.integers(ids, size=[count, HISTORY]),
        "history_length": np.full(count, HISTORY),
        "interests": generator.integers(ids, size=[count, INTERESTS]),
        "interests_length": np.full(count, INTERESTS),
        "post": generator.integers(ids, size=count),
        "author": generator.integers(ids, size=count),
        "age_s": generator.normal(size=count).astype(np.float32),
        "length_s": generator.normal(size=count).astype(np.float32),
    }
