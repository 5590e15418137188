"""TensorFlow Transform; an incremental training keeps the statistics of its weights' training."""
