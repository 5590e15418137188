"""The dates of a past period in order: on this machine, or on Kubeflow."""
