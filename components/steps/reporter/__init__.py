"""The page of a run on Kubeflow: everything that its steps have found, as one file."""
