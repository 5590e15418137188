"""Users who are shown candidates hour by hour, and two versions' predictions of what they like."""

from dataclasses import replace

import numpy as np

from sangam.components.promotion.paired import Scored

USERS = 60


def _sigmoid(logit: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-logit)))


def world(
    seed: int, examples: int, *, noise: float = 0.8, users: int = USERS, bias: float = 0.0, of_user: float = 0.5
) -> Scored:
    """Returns examples in the order of time. Both versions know a part of the truth, the shadow with another noise.

    Equal noise: both have the same AUC, and the same calibration without a bias.
    """
    draws = np.random.default_rng(seed)
    user = draws.integers(0, users, examples)
    truth = draws.normal(0, 1, examples) + draws.normal(0, 0.7, users)[user] - 0.5
    labels = (draws.random(examples) < _sigmoid(truth)).astype(float)
    # What each version does not know of a user, it does not know of all that the user is shown.
    live = truth + draws.normal(0, 0.8, examples) + draws.normal(0, of_user, users)[user]
    shadow = truth + draws.normal(0, noise, examples) + draws.normal(0, of_user, users)[user] + bias
    return Scored(labels, _sigmoid(live), _sigmoid(shadow), user)


def first(scored: Scored, examples: int) -> Scored:
    """Returns the first examples."""
    fields = ("labels", "live", "shadow", "users")
    return replace(scored, **{name: getattr(scored, name)[:examples] for name in fields})
