"""The objective of training: the loss of each example and task, their balance, and predictions from logits."""

from sangam.trainer_module.losses.balance import Balance
from sangam.trainer_module.losses.examples import ids_read
from sangam.trainer_module.losses.tasks import (
    calibrated,
    correction,
    logits_of_mean_prediction,
    loss_sums,
    predictions,
)

__all__ = ["Balance", "calibrated", "correction", "ids_read", "logits_of_mean_prediction", "loss_sums", "predictions"]
