"""Sampled rows for logs of positives only: candidates of each day, draws among them, and their rows."""
