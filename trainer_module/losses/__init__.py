"""What training minimizes: the loss of each example and task, their balance, and what a logit predicts."""

from trainer_module.losses.balance import Balance
from trainer_module.losses.tasks import correction, logits_of_mean_prediction, loss_sums, predictions

__all__ = ["Balance", "correction", "logits_of_mean_prediction", "loss_sums", "predictions"]
