"""A ranker on Kubeflow Pipelines, every day: its pipeline and schedule on the server, its runs, and the end of it."""
