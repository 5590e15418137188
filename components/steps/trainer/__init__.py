"""The training step: it runs the training job as processes of this machine or as pods."""
