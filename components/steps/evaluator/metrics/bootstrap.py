"""Poisson bootstrap: every example counts 0, 1, 2, … times in a replicate, by a hash of its bootstrap unit.

Nothing is drawn at random: an example has the same count on every worker and for every model, so that two models'
replicates have the same examples and can be subtracted.

Reference: Chamandy et al., Estimating Uncertainty for Massive Data Streams, 2012, section 3.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sangam.schemas.host.splitmix64 import GAMMA, mix64

_LANES = 4
"""Replicates whose weights come from one hash of 64 bits, 16 bits each."""
Times = np.uint16
"""Type of a number of draws: sums of up to `MOST_TIMES` of them do not overflow."""
_AT_ONCE = 1024
"""Units that are hashed at once: their hashes fit the processor's cache."""
_LEAST_DEFINED = 0.9
"""Minimum share of defined replicates of an interval: without labels of one class a replicate has no AUC."""


def _poisson_table() -> NDArray[Times]:
    """Returns for every 16-bit number its quantile of the Poisson distribution with mean 1."""
    chances = [math.exp(-1) / math.factorial(count) for count in range(12)]
    quantiles = (np.arange(1 << 16) + 0.5) / (1 << 16)
    return np.searchsorted(np.cumsum(chances), quantiles).astype(Times)


_POISSON = _poisson_table()
MOST_TIMES = np.iinfo(Times).max // int(_POISSON.max())
"""Units whose draws are summed without overflow: 8,191, as none is drawn more than eight times."""


def weights(units: NDArray[np.uint64], replicates: int, seed: int) -> NDArray[Times]:
    """Returns how often each unit is drawn.

    Args:
        units: hashes of the bootstrap units, uint64[n].
        replicates: number of replicates.
        seed: seed of the weights.

    Returns:
        Times[n, 1 + replicates]; the first column is all ones, for the data itself.
    """
    steps = np.arange(1, -(-replicates // _LANES) + 1, dtype=np.uint64) * np.uint64(GAMMA)
    streams = mix64(steps ^ mix64(np.array([seed], np.uint64)))
    result = np.ones((len(units), 1 + replicates), Times)
    for start in range(0, len(units) if replicates else 0, _AT_ONCE):
        hashes = mix64(units[start : start + _AT_ONCE].astype(np.uint64)[:, None] ^ streams[None, :])
        # Fixed byte order, so that results are equal on all machines.
        result[start : start + _AT_ONCE, 1:] = _POISSON[hashes.astype("<u8", copy=False).view("<u2")][:, :replicates]
    return result


def interval(replicates: Sequence[float], level: float) -> tuple[float, float] | None:
    """Returns the percentile interval of a metric's replicates, None where too few of them are defined."""
    values = np.asarray(replicates, np.float64)
    defined = values[np.isfinite(values)]
    if not len(defined) or len(defined) < _LEAST_DEFINED * len(values):
        return None
    lower, upper = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return float(lower), float(upper)
