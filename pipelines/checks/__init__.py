"""Checks before a run: a base, this machine, the memory that a ranker needs."""
