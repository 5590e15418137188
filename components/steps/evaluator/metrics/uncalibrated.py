"""What a calibrated model would predict without its calibration: the calibration rises strictly, so it is undone."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.steps.evaluator.metrics.totals_histogram import Floats
from schemas.contracts.calibration import Calibration


def uncalibrated(scores: NDArray[np.floating[Any]], calibration: Calibration) -> Floats:
    """Returns the predictions before the calibration, float64.

    A served score is a float32, so that 1 - score has an error of 3e-8; NaN, and scores outside [0, 1], become NaN.
    """
    own, served = calibration.inverse(), scores.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        logits = np.log(served) - np.log1p(-served)
        inside = np.clip(logits, own.logits[0], own.logits[-1])
        return 1.0 / (1.0 + np.exp(own.slope * (inside - logits) - np.interp(inside, own.logits, own.calibrated)))
