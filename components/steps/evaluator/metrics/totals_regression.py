"""Totals and metrics of a regression task."""

import numpy as np

from sangam.components.steps.evaluator.metrics.draws import Draws
from sangam.components.steps.evaluator.metrics.totals import Part, Sums, own_weights, weighted
from sangam.components.steps.evaluator.metrics.totals_histogram import Floats, ratio
from sangam.components.steps.evaluator.metrics.totals_ranks import RankSample


class RegressionTotals:
    """Totals of examples with a real label and a real score."""

    def __init__(self, replicates: int, seed: int, *, by_weight: bool = False) -> None:
        """Starts empty; with `by_weight` each example counts by its weight instead of once, without ranks."""
        self.sums = Sums(5, replicates)
        self.seed = seed
        self.by_weight = by_weight
        self.sample = RankSample()

    def add(self, part: Part, draws: Draws) -> None:
        """Counts examples."""
        part, draws = self.sums.count(part, draws)
        if not len(part):
            return
        if not self.by_weight:
            self.sample.add(part.ids, part.units, part.labels, part.scores)
        errors = part.scores - part.labels
        columns = [np.ones(len(part)), part.labels, part.scores, errors**2, np.abs(errors)]
        self.sums.values += draws.summed(weighted(columns, own_weights(part, by_weight=self.by_weight)))

    def merge(self, other: "RegressionTotals") -> None:
        """Adds the totals of other examples."""
        self.sums.merge(other.sums)
        self.sample.merge(other.sample)

    def metrics(self) -> dict[str, Floats]:
        """Returns each metric of the data and of each replicate, [R]; NaN where it is undefined."""
        counts, labels, scores, squares, distances = self.sums.values
        metrics = {
            "rmse": np.sqrt(ratio(squares, counts)),
            "mae": ratio(distances, counts),
            "calibration": ratio(scores, labels),
        }
        if not self.by_weight:
            metrics["rank_correlation"] = self.sample.correlations(self.sums.replicates, self.seed)
        return metrics if self.sums.is_defined else {name: values * np.nan for name, values in metrics.items()}

    def report(self) -> dict[str, float]:
        """Returns counts and means."""
        return self.sums.report(float(self.sums.values[2, 0]))

    def buckets(self) -> list[dict[str, float]]:
        """Returns an empty list: only probabilities have calibration buckets."""
        return []

    def curve(self) -> None:
        """Returns None: only binary tasks have curves."""
        return None
