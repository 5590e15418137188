"""AUC gained by fresh deltas: one stream of examples, scored by servers that get deltas at different intervals."""
