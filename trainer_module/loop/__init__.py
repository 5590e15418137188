"""The training loop: start, steps, validation, early stopping, checkpoints and report. `training` tells the story."""
