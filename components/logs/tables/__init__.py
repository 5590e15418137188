"""Logs as one table: their rows are written by day or split once, and read from there like other logs."""
