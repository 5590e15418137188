"""Maps the URIs that Kubeflow gives artifacts to folders in a container, and back.

Kubeflow's launcher refuses an input artifact whose URI is not in one of its stores
(https://github.com/kubeflow/pipelines/blob/2.14.3/backend/src/v2/component/launcher_v2.go, fetchNonDefaultBuckets), so
artifacts keep the backend's URIs. The launcher accepts missing downloads and uploads (the same file,
uploadOutputArtifacts), so the files are below the pipeline root, where later runs and other pods see them, under a path
that determines the URI.
"""

import os
from dataclasses import dataclass

from sangam.schemas.errors import UserError

FOLDERS = {"gs": "gcs", "minio": "minio", "s3": "s3"}
"""Scheme to folder: Kubeflow's launcher and Vertex AI mount the stores under these names, below `/`."""
_SCHEMES = {folder: scheme for scheme, folder in FOLDERS.items()}
ARTIFACTS = "artifacts"
"""Folder of the artifacts below the pipeline root."""


def artifact_base(pipeline_root: str) -> str:
    """Returns the folder of all artifacts: below the pipeline root, or "" if the root is in a mounted store.

    On Vertex AI the mounted store is /gcs/bucket/folder, which is persistent itself.

    Raises:
        UserError: for anything but an absolute path.
    """
    clean = pipeline_root.rstrip("/")
    if not clean.startswith("/") or clean.startswith("//") or clean != os.path.normpath(clean):
        raise UserError(
            f"pipeline_root: is not an absolute path (got '{pipeline_root}'); give one on a volume of cluster.volumes, "
            "on Vertex AI /gcs/<bucket>/<folder>"
        )
    return "" if clean.split("/")[1] in _SCHEMES else f"{clean}/{ARTIFACTS}"


@dataclass(frozen=True)
class UriMapping:
    """A one-to-one mapping between URIs and paths below `base`."""

    base: str

    def path(self, uri: str) -> str:
        """Returns the path of a URI.

        Raises:
            UserError: for a URI of an unknown store, or with a key that would leave its folder.
        """
        scheme, _, rest = uri.partition("://")
        if scheme not in FOLDERS or not _is_plain(rest):
            raise UserError(
                f"artifact: has an unsupported URI (got '{uri}'); it must be <store>://<bucket>/<key> with a store of "
                "gs, minio, s3, and a key without '.', '..' and empty parts"
            )
        return f"{self.base}/{FOLDERS[scheme]}/{rest}"

    def uri(self, path: str) -> str:
        """Returns the URI of a path; the inverse of `path`.

        Raises:
            UserError: for any other path.
        """
        folder, _, rest = path.removeprefix(f"{self.base}/").partition("/")
        if not path.startswith(f"{self.base}/") or folder not in _SCHEMES or not _is_plain(rest):
            raise UserError(f"artifact: is outside of {self.base or '/'} (got '{path}'); a step must not move it")
        return f"{_SCHEMES[folder]}://{rest}"


def _is_plain(rest: str) -> bool:
    parts = rest.split("/")
    return len(parts) > 1 and "\0" not in rest and not {"", ".", ".."} & set(parts)


def run_folder(path: str, task: str) -> tuple[str, str] | None:
    """Returns the run's folder and id, derived from the path of a task's output; None if it contains neither.

    Kubeflow writes <root>/<pipeline>/<run>/<task>/<salt>/<output> (backend/src/v2/driver/driver.go,
    provisionOutputs), Vertex AI <root>/<project>/<job>/<task>_<number>/<output>.
    """
    parts = path.split("/")
    for number in range(len(parts) - 2, 1, -1):
        if parts[number] == task or parts[number].startswith(f"{task}_"):
            return "/".join(parts[:number]), parts[number - 1]
    return None
