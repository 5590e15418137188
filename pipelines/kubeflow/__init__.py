"""The pipeline as one file for Kubeflow Pipelines v2, or for Vertex AI."""
