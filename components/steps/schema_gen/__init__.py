"""Derives the schema for the validation of statistics from the spec, never from the data."""
