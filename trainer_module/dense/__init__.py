"""Dense weights, layers and optimizers."""
