"""Backfills: a run for each date of a past period, in order, on this machine or on Kubeflow."""
