"""What training minimizes: the loss of each example and task, their balance, and what a logit predicts."""

from trainer_module.losses.balance import Balance, balance_weights
from trainer_module.losses.tasks import loss_sums, predictions

__all__ = ["Balance", "balance_weights", "loss_sums", "predictions"]
