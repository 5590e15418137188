"""Compares a version in the shadow with the live one, on the same answers and what followed, and decides on it."""
