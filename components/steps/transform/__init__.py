"""TensorFlow Transform; an incremental training keeps the statistics that its weights were trained with."""
