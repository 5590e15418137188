"""The file that Vertex AI Pipelines takes: a PipelineJob, as JSON."""

import json
from typing import Any

_MOUNT = "/gcs/"
"""Mount point of Cloud Storage in every container of Vertex AI."""
_SCHEME = "gs://"


def mounted_root(pipeline_root: str) -> str:
    """Returns the mounted path of a root, given as a path or as a URI of Cloud Storage."""
    return pipeline_root.replace(_SCHEME, _MOUNT, 1) if pipeline_root.startswith(_SCHEME) else pipeline_root


def job_text(ir: dict[str, Any], *, display_name: str, pipeline_root: str) -> str:
    """Returns the PipelineJob.

    Args:
        ir: the pipeline spec.
        display_name: of the job.
        pipeline_root: a mounted path.
    """
    job = {
        "displayName": display_name,
        "pipelineSpec": ir,
        "runtimeConfig": {
            "gcsOutputDirectory": f"{pipeline_root.replace(_MOUNT, _SCHEME, 1)}/artifacts",
            "parameterValues": {},
        },
    }
    return json.dumps(job, indent=2, sort_keys=True) + "\n"
