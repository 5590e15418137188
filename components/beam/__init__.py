"""Runs Beam steps on an engine: jobs, time limit, reasons of failures, worker pool."""
