"""A ranker's daily runs on Kubeflow Pipelines: pipeline and schedule on the server, state, runs, retirement."""
