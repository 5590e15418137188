"""TensorFlow Transform; an incremental training goes on with the graph that its weights were trained with."""
