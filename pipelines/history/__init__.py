"""Queries on a root of local runs: list, details and difference of runs, lineage of a model."""
