"""Processes that hold the rows, and what the ranks ask of them, where `training.sync` is not `sync`."""
