"""The same pipeline as one file for Kubeflow Pipelines v2, or for Vertex AI."""

from pipelines.kubeflow.compile import Target, compile_pipeline
from pipelines.kubeflow.writing import write_compiled

__all__ = ["Target", "compile_pipeline", "write_compiled"]
