"""Trains on examples as they arrive, and publishes what it learns to serving. Read `learning` first."""
