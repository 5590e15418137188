"""What training minimizes: each task's loss of an example, how these add up, and what a logit predicts."""

from trainer_module.losses.balance import Balance, balance_weights
from trainer_module.losses.tasks import loss_sums, predictions

__all__ = ["Balance", "balance_weights", "loss_sums", "predictions"]
