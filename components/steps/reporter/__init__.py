"""Writes the record of a run on Kubeflow, and its page with all results of its steps."""
