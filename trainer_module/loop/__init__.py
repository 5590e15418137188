"""The training loop: start, steps, validation, early stopping, checkpoints, progress and report."""
