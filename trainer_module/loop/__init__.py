"""The training loop: start, steps, validation, early stopping, checkpoints and report. Read `training` first."""
