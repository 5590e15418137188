"""What happened on earlier days to rows of the same id; a row's own day never counts."""

import numpy as np
from numpy.typing import NDArray


def before(ids_N: NDArray[np.int64], days_N: NDArray[np.int64], weights_N: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns for each row the sum of the weights of rows with its id on earlier days."""
    order_N = np.lexsort((days_N, ids_N))
    ids_N, days_N = ids_N[order_N], days_N[order_N]
    summed_N = np.cumsum(weights_N[order_N]) - weights_N[order_N]
    is_first_of_id_N = np.diff(ids_N, prepend=ids_N[:1] - 1) != 0
    is_first_of_day_N = is_first_of_id_N | (np.diff(days_N, prepend=days_N[:1] - 1) != 0)
    found_N = np.empty_like(summed_N)
    found_N[order_N] = summed_N[_last(is_first_of_day_N)] - summed_N[_last(is_first_of_id_N)]
    return found_N


def _last(is_first_N: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Returns for each row the newest place up to it that is a first one."""
    return np.maximum.accumulate(np.where(is_first_N, np.arange(len(is_first_N)), 0))


def rates(
    ids_N: NDArray[np.int64], days_N: NDArray[np.int64], labels_N: NDArray[np.float64], mean: float, prior_rows: float
) -> NDArray[np.float64]:
    """Returns for each row the mean label of its id on earlier days, of which so many more rows have the given mean."""
    seen_N = before(ids_N, days_N, np.ones(len(ids_N)))
    return (before(ids_N, days_N, labels_N) + prior_rows * mean) / (seen_N + prior_rows)
