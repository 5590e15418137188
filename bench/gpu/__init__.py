"""Benchmarks for a machine with a GPU; infra/gpu runs them there."""
