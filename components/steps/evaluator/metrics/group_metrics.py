"""GAUC, and NDCG, recall, hit rate and MRR at k, over groups and lists of examples, all groups at once.

The bootstrap draws a group as a whole: with its examples' unit if they share one, as when both units and groups are
users; otherwise on its own. Drawing its examples one by one, some twice and others never, would change the list and its
NDCG.

Groups of several slices are measured together: an example's group here is one group within one slice.

Arrays carry shape suffixes: N examples sorted by group and falling score, T runs of equal scores within a group, G
groups, S slices, R for 1 + replicates, of which the first is the data itself.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sangam.components.steps.evaluator.metrics.draws import Draws
from sangam.components.steps.evaluator.metrics.totals_histogram import Floats, Ints, is_first, ratio

Weigh = Literal["examples", "positives", "groups"]
Values = tuple[Floats, Floats]
"""A metric of each group, NaN without one, and how much it weighs: [G]."""


@dataclass(frozen=True)
class MeanSums:
    """A weighted mean over groups, as two sums that can be added over sets of groups.

    Attributes:
        parts: sum of value times weight, [R].
        wholes: sum of weights, [R].
        counted: groups with a value.
        skipped: groups without one, such as those of one class.
    """

    parts: Floats
    wholes: Floats
    counted: int
    skipped: int

    def plus(self, other: "MeanSums") -> "MeanSums":
        """Returns the sums over both sets of groups."""
        return MeanSums(
            self.parts + other.parts,
            self.wholes + other.wholes,
            self.counted + other.counted,
            self.skipped + other.skipped,
        )

    def mean(self) -> Floats:
        """Returns the mean, NaN if no group has a value."""
        return ratio(self.parts, self.wholes)


@dataclass(frozen=True)
class Groups:
    """Examples of one task and one model, sorted by group and falling score.

    Attributes:
        draws: how often each group counts.
        slices_G: number of the slice of each group, ascending.
        negatives_T: negatives of a run of equal scores.
        positives_T: positives of the run.
        before_T: examples of the run's group that rank above it.
        negatives_before_T: negatives of the run's group that rank above it.
        of_group_G: index of each group's first run.
    """

    draws: Draws
    slices_G: Ints
    negatives_T: Floats
    positives_T: Floats
    before_T: Floats
    negatives_before_T: Floats
    of_group_G: Ints

    def per_group(self, values_T: Floats) -> Floats:
        """Returns the sum over each group's runs, [G]."""
        return np.add.reduceat(values_T, self.of_group_G)


def grouped(
    *,
    groups: Ints,
    draws: Draws,
    is_positive: NDArray[np.bool_],
    scores: NDArray[np.float32],
    slices_G: Ints,
) -> Groups:
    """Counts examples by group and run of equal scores.

    Args:
        groups: number of the group of each example, at least one, ascending; none is skipped.
        draws: how often each group counts: see `draws_of`.
        is_positive: label of each example.
        scores: scores of each example, falling within a group: see `order_of`.
        slices_G: number of each group's slice, rising.
    """
    is_new_group = is_first(groups)
    starts = np.flatnonzero(is_new_group | is_first(scores))
    of_group = np.flatnonzero(is_new_group[starts])
    positives = np.add.reduceat(is_positive, starts, dtype=np.float64)
    sizes = np.diff(np.append(starts, len(groups))).astype(np.float64)
    return Groups(
        draws=draws,
        slices_G=slices_G,
        negatives_T=sizes - positives,
        positives_T=positives,
        before_T=_before(sizes, of_group),
        negatives_before_T=_before(sizes - positives, of_group),
        of_group_G=of_group,
    )


def order_of(groups: Ints, scores: NDArray[np.float32]) -> Ints:
    """Returns the order of examples by the number of their group and, within it, by falling score.

    One sort of 64 bits is faster than two.
    """
    # 0.0 and -0.0 are equal. The bits rise with positive floats, and fall with negative ones.
    bits = (scores + np.float32(0)).view(np.uint32)
    rising = np.where(bits >> np.uint32(31), ~bits, bits | np.uint32(1 << 31))
    return np.argsort(groups.astype(np.uint64) << np.uint64(32) | ~rising)


def draws_of(units: NDArray[np.uint64], groups: NDArray[np.uint64], starts: Ints, replicates: int, seed: int) -> Draws:
    """Returns how often each group counts.

    Args:
        units: hash of each example's bootstrap unit; examples of a group are together.
        groups: hash of each group, [G].
        starts: index of each group's first example.
        replicates: replicates of the bootstrap.
        seed: seed of the bootstrap.
    """
    lowest, highest = (edge.reduceat(units, starts) for edge in (np.minimum, np.maximum))
    return Draws.of(np.where(lowest == highest, lowest, groups), replicates, seed)


def gauc(groups: Groups, weigh: Weigh) -> Values:
    """Returns the AUC within each group; groups of one class have none.

    Reference: Zhou et al., Deep Interest Network, 2018, equation 6.
    """
    negatives, positives = groups.per_group(groups.negatives_T), groups.per_group(groups.positives_T)
    # Pairs of a run's positives and negatives above it are in the wrong order.
    wrong = groups.per_group(groups.positives_T * (groups.negatives_before_T + groups.negatives_T / 2))
    weights_by = {"examples": negatives + positives, "positives": positives, "groups": np.ones_like(positives)}
    return 1 - ratio(wrong, negatives * positives), weights_by[weigh]


def at_k(groups: Groups, ks: Sequence[int]) -> dict[str, Values]:
    """Returns the metrics of `AT_K` of each list at each k; lists without a positive have none."""
    metrics: dict[str, Callable[[Groups, int], Floats]] = {
        "ndcg": _ndcg,
        "recall": _recall,
        "hit_rate": _hit_rate,
        "mrr": _mrr,
    }
    ones = np.ones(len(groups.of_group_G))
    return {f"{name}_at_{k}": (metric(groups, k), ones) for k in ks for name, metric in metrics.items()}


def means(groups: Groups, metrics: Mapping[str, Values]) -> dict[int, dict[str, MeanSums]]:
    """Returns by slice the means of metrics over its groups."""
    first = np.flatnonzero(is_first(groups.slices_G))
    sizes = np.diff(np.append(first, len(groups.slices_G)))
    values_MG, weights_MG = (np.stack(each) for each in zip(*metrics.values(), strict=True))
    has_value_MG = np.isfinite(values_MG)
    wholes_MG = np.where(has_value_MG, weights_MG, 0.0)
    columns_CG = np.concatenate([np.where(has_value_MG, values_MG, 0.0) * wholes_MG, wholes_MG])
    counted_MS = np.add.reduceat(has_value_MG, first, axis=1, dtype=np.int64)
    return {
        code: {
            name: MeanSums(parts_R, wholes_R, counted, size - counted)
            for name, parts_R, wholes_R, counted in zip(metrics, *np.split(sums_CR, 2), counted_M, strict=True)
        }
        for code, size, sums_CR, counted_M in zip(
            groups.slices_G[first].tolist(),
            sizes.tolist(),
            _summed(groups.draws, columns_CG, first, sizes),
            counted_MS.T.tolist(),
            strict=True,
        )
    }


def _summed(draws: Draws, columns_CG: Floats, first: Ints, sizes: Ints) -> Iterable[Floats]:
    """Returns the sums of columns over the groups of each slice, [C, R]."""
    if draws.replicates == 0:  # There may be very many such slices.
        return np.add.reduceat(columns_CG, first, axis=1).T[:, :, None]
    slices = [slice(start, start + size) for start, size in zip(first.tolist(), sizes.tolist(), strict=True)]
    return (draws.where(of_slice).summed(list(columns_CG[:, of_slice])) for of_slice in slices)


def _ndcg(groups: Groups, k: int) -> Floats:
    """Returns NDCG@k with gains of 0 and 1.

    Equal scores share the mean of their ranks' discounts, as in scikit-learn's ndcg_score.

    Reference: Järvelin and Kekäläinen, Cumulated gain-based evaluation of IR techniques, 2002.
    """
    discounts = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(2, k + 2)))])
    ideal = discounts[_places_to(groups.per_group(groups.positives_T), k)]
    return ratio(_at_places(groups, k, discounts), ideal)


def _recall(groups: Groups, k: int) -> Floats:
    """Returns the share of a list's positives among its first k; equal scores at rank k count in proportion."""
    positives_in_k = _at_places(groups, k, np.arange(k + 1, dtype=np.float64))
    return ratio(positives_in_k, groups.per_group(groups.positives_T))


def _hit_rate(groups: Groups, k: int) -> Floats:
    """Returns 1 for a list with a positive among its first k, 0 without; among equal scores, its probability."""
    return _of_first_positive(groups, k, np.ones(k))


def _mrr(groups: Groups, k: int) -> Floats:
    """Returns 1 / rank of the first positive, 0 beyond rank k; among equal scores, the mean over their orders.

    Reference: Voorhees, The TREC-8 question answering track report, 1999.
    """
    return _of_first_positive(groups, k, 1 / np.arange(1, k + 1))


def _of_first_positive(groups: Groups, k: int, worth: Floats) -> Floats:
    """Returns the worth of the rank of a list's first positive, as a mean over all orders of equal scores.

    The first positive is in the first run that has one. If p of the n examples of a run are positives, the first one
    is at place j with probability p / (n - j + 1), if it is at none before.
    """
    has_positive_T = groups.positives_T > 0
    of_run_T = np.repeat(np.arange(len(groups.of_group_G)), np.diff(np.append(groups.of_group_G, len(has_positive_T))))
    runs = np.flatnonzero(has_positive_T)
    runs = runs[is_first(of_run_T[runs])]
    found = of_run_T[runs]
    before, positives = groups.before_T[runs].astype(np.int64), groups.positives_T[runs]
    sizes = positives + groups.negatives_T[runs]
    total, is_later = np.zeros(len(runs)), np.ones(len(runs))
    for place in range(k):
        active = np.flatnonzero((is_later > 0) & (before + place < k))
        if not len(active):
            break
        here = is_later[active] * positives[active] / (sizes[active] - place)
        total[active] += here * worth[before[active] + place]
        is_later[active] *= 1 - positives[active] / (sizes[active] - place)
    values_G = np.full(len(groups.of_group_G), np.nan)
    values_G[found] = total
    return values_G


def _at_places(groups: Groups, k: int, worth: Floats) -> Floats:
    """Returns the sum over a group's positives of the worth of their ranks; `worth` is cumulative to k."""
    size = groups.negatives_T + groups.positives_T
    worth_T = worth[_places_to(groups.before_T + size, k)] - worth[_places_to(groups.before_T, k)]
    return groups.per_group(groups.positives_T * worth_T / size)


def _places_to(counts: Floats, k: int) -> Ints:
    return np.minimum(counts, k).astype(np.int64)


def _before(values_T: Floats, of_group_G: Ints) -> Floats:
    """Returns the sum of the values before each run in its group."""
    before = np.cumsum(values_T) - values_T
    return before - np.repeat(before[of_group_G], np.diff(np.append(of_group_G, len(values_T))))
