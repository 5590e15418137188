"""Compares what servers saw with what the logs say: which features differ, and what is likely to have caused it."""
