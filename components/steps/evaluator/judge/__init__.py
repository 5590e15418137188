"""Checks the gates, and returns the verdict and the blessing."""
