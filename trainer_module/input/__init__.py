"""Batches of transformed examples: read by each rank itself, or from the pool of the tf.data service."""
