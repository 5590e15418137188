"""Drift of what is served against what was trained on: distances, and their counting in a server."""
