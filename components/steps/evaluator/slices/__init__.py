"""Converts batches of examples to scored blocks, and counts them by slice."""
