"""Checks the gates, and gives the verdict and the blessing."""
