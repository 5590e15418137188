"""The record of a run on Kubeflow, and its page: everything that its steps have found, as one file."""
