"""Dense weights, the layers made of them, and their optimizers."""
