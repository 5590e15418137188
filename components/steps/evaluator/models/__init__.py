"""Loads and checks the models to compare: the candidate and its baseline."""
