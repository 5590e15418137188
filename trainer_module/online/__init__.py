"""Trains on examples as they arrive, and publishes changes to the model servers. Read `learning` first."""
